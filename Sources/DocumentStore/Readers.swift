import Documents

/// A job for a reader: given its connection.
typealias ReadJob = @Sendable (Session) -> Void

/// The loop of one reader thread.
enum Reader {
    static func run(_ session: Session, _ queue: JobQueue<ReadJob>) {
        while let job = queue.take(upTo: 1).first { job(session) }
    }

    /// Runs `body` on one consistent view of the database.
    static func view<T>(_ session: Session, _ body: (ReadTransaction) throws -> T) -> Result<T, any Error> {
        session.failure = nil
        let transaction = ReadTransaction(session)
        do {
            try session.run(session.begin)
            let value = try body(transaction)
            transaction.isActive = false
            try session.run(session.commit)
            return .success(value)
        } catch {
            transaction.isActive = false
            if session.connection.isInTransaction { try? session.connection.execute("ROLLBACK") }
            return .failure(error)
        }
    }
}

/// Carries something to the one thread that will use it.
///
/// Unchecked: the value is made before the thread starts and no longer touched by its maker.
struct Handover<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
