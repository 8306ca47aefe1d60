extension Database {
    /// Runs `body` on a reader thread and waits for it: for callers on threads of their own, never for an event loop or
    /// a task.
    public func readNow<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction) throws -> T) throws -> T {
        let answer = JobQueue<Result<T, any Error>>()
        let accepted = reads.push { session in _ = answer.push(Reader.view(session, body)) }
        guard accepted, let result = answer.take(upTo: 1).first else { throw StoreError.closed(database: name) }
        return try result.get()
    }
}
