import Environment

/// An answer that a thread waits for.
struct AwaitedAnswer<Value: Sendable>: Sendable {
    private let result = Monitor<Result<Value, any Error>?>(nil)

    func give(_ value: Result<Value, any Error>) {
        result.change {
            $0 = value
            return true
        }
    }

    /// Waits for the answer of a job that was pushed to the queue.
    /// - Throws: the answer's error; `.database` if the job could only run on this thread, and cannot because the caller is itself a job.
    func wait<Element>(for queue: JobQueue<Element>, _ workers: any WorkerPool) throws -> Value {
        guard workers.hasThreads else {
            queue.runNow()
            guard let result = result.withLock({ $0 }) else {
                throw StoreError.database(code: 0, message: "a job of the database waits for another one", sql: "")
            }
            return try result.get()
        }
        return try result.wait { $0 }.get()
    }
}
