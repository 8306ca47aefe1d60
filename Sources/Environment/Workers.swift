/// Where work runs that blocks or takes long: a database's writer and readers, blob files, plugins.
///
/// In production each worker is a thread. In the simulation, all of them are steps of one scheduler.
package protocol WorkerPool: Sendable {
    /// Whether workers run on threads of their own, so that a thread may wait for their results. Otherwise, the waiting thread runs their turn
    /// itself, with `Worker.runNow`.
    var hasThreads: Bool { get }

    /// Starts a worker, which sleeps until it is woken.
    /// - Parameters:
    ///   - name: shown by `top -H`, debuggers and traces; the kernel keeps 15 bytes.
    ///   - stackBytes: nil for the system's default.
    ///   - turn: does the outstanding work and returns. It is released where it runs, before `stop` returns, so that what only it retains is released
    ///     there.
    func start(name: String, stackBytes: Int?, _ turn: @escaping @Sendable () -> Void) throws(ThreadError) -> any Worker

    /// Runs `body` once, on a worker of its own.
    func runOnce(name: String, stackBytes: Int?, _ body: @escaping @Sendable () -> Void) throws(ThreadError)
}

/// Runs its turn whenever it was woken, one turn at a time.
package protocol Worker: AnyObject, Sendable {
    /// Guarantees that a turn begins after this call. Several calls before it begins count as one. Any thread.
    func wake()

    /// Runs a due turn on the calling thread if this worker has no thread of its own and is not inside a turn; otherwise does nothing.
    func runNow()

    /// Runs a turn that is due, then ends; waits for that unless called from within a turn. Later calls do nothing.
    func stop()
}

extension WorkerPool {
    package func start(name: String, _ turn: @escaping @Sendable () -> Void) throws(ThreadError) -> any Worker {
        try start(name: name, stackBytes: nil, turn)
    }

    /// Runs `body` once on a worker of its own, and waits without blocking the caller's executor.
    package func run<Result: Sendable>(
        name: String, stackBytes: Int?, _ body: @escaping @Sendable () -> Result
    ) async throws(ThreadError) -> Result {
        let outcome: Swift.Result<Result, ThreadError> = await withCheckedContinuation { continuation in
            do throws(ThreadError) {
                try runOnce(name: name, stackBytes: stackBytes) { continuation.resume(returning: .success(body())) }
            } catch {
                continuation.resume(returning: .failure(error))
            }
        }
        return try outcome.get()
    }
}
