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
        session.view += 1
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

/// Carries something to the one thread that will use it, which becomes its only owner: a connection is closed
/// when its thread ends, not when the last closure goes.
///
/// Unchecked: the value is put in before the thread starts and taken out by that thread.
final class Handover<Value>: @unchecked Sendable {
    private var value: Value?
    init(_ value: Value) { self.value = value }

    func take() -> Value? {
        defer { value = nil }
        return value
    }
}
