import Documents

/// The work of one reader: jobs on its own connection.
///
/// Unchecked: used only within its worker's turns, which run one at a time. Only the turn retains it, so the connection is closed where it was used,
/// not where the last closure is released.
final class Reader: @unchecked Sendable {
    private let session: Session
    private let queue: JobQueue<Job<Session>>
    private let number: Int

    /// - Parameter number: the number of its worker in the queue.
    init(session: Session, queue: JobQueue<Job<Session>>, number: Int) {
        self.session = session
        self.queue = queue
        self.number = number
    }

    /// Runs the waiting jobs.
    func turn() {
        while let job = queue.next(worker: number) { job.run(session) }
    }

    /// Runs `body` on one consistent snapshot of the database.
    static func view<T>(_ session: Session, _ body: (ReadTransaction) throws -> T) -> Result<T, any Error> {
        session.failure = nil
        session.view += 1
        let transaction = ReadTransaction(session)
        do {
            try session.run(session.begin)
            let value = try body(transaction)
            transaction.isActive = false
            // The data has been read. After a damaged page SQLite cannot end the transaction normally, and a reader's transaction has nothing to
            // store.
            do { try session.run(session.commit) } catch where session.connection.isInTransaction { try? session.connection.execute("ROLLBACK") } catch {}
            return .success(value)
        } catch {
            transaction.isActive = false
            if session.connection.isInTransaction { try? session.connection.execute("ROLLBACK") }
            return .failure(error)
        }
    }
}
