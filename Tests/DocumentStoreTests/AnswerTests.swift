import Dispatch
@testable import DocumentStore
import Documents
import SQLite
import Synchronization
import Testing

/// Every waiting write is answered exactly once, whatever becomes of its transaction.
@Suite(.timeLimit(.minutes(10))) struct AnswerTests {
    /// Another connection to a database's file, as another process would have it.
    private func stranger(_ store: Store) throws -> Connection {
        try Connection(path: store.folder + "/db.sqlite3", mode: .readWrite)
    }

    private func store(busyMilliseconds: Int32 = 5000) throws -> Store {
        var options = DatabaseOptions()
        options.busyTimeoutMilliseconds = busyMilliseconds
        return try Store(options)
    }

    private final class Counts: Sendable {
        let values = Mutex<[Int: [String]]>([:])

        func note(_ job: Int, _ result: Result<SavedRevision, any Error>) {
            let text =
                switch result {
                case .success: "stored"
                case .failure(StoreError.database): "database"
                case .failure(StoreError.closed): "closed"
                case .failure(let error): "\(error)"
                }
            values.withLock { $0[job, default: []].append(text) }
        }
    }

    @Test func everyWriteIsAnsweredWhenTheTransactionCannotBegin() async throws {
        let store = try store(busyMilliseconds: 20)
        let other = try stranger(store)
        try other.execute("BEGIN IMMEDIATE")
        await withTaskGroup(of: Void.self) { group in
            for n in 0..<50 {
                group.addTask {
                    let error = await #expect(throws: StoreError.self) { _ = try await store.save("d\(n)", "{}") }
                    guard case .database(_, let message, _)? = error, message.contains("locked") else {
                        return #expect(Bool(false), "\(String(describing: error))")
                    }
                }
            }
        }
        try other.execute("ROLLBACK")
        _ = try await store.save("after", "{}")
        #expect(try await store.statistics().documents == 1)
        #expect(try await store.get("after")?.sequence == 1)
    }

    /// Runs `first` alone and then nine writes that came while it ran, so that all share a transaction; gives what each heard.
    private func crowd(
        _ store: Store, first: @escaping @Sendable (WriteTransaction) throws -> Void,
        fifth: @escaping @Sendable (WriteTransaction) throws -> Void = { _ in }
    ) async throws -> [[String]] {
        let c = try store.c
        let counts = Counts()
        let database = store.database
        let (answered, continuation) = AsyncStream.makeStream(of: Int.self)
        @Sendable func submit(_ n: Int, _ body: @escaping @Sendable (WriteTransaction) throws -> Void) {
            database.write { transaction in
                if n == 0 { try body(transaction) }
                let saved = try transaction.save(c, id: doc("d\(n)"), body: Array("{}".utf8), parent: nil)
                if n > 0 { try body(transaction) }
                return saved
            } completion: { result in
                counts.note(n, result)
                continuation.yield(n)
            }
        }
        submit(0) { transaction in
            for n in 1..<10 { submit(n) { if n == 5 { try fifth($0) } } }
            try first(transaction)
        }
        var left = Set(0..<10)
        for await n in answered {
            left.remove(n)
            if left.isEmpty { break }
        }
        // A second answer to any of them would come before this one's.
        _ = try? await database.write { _ in }
        return counts.values.withLock { values in (0..<10).map { values[$0] ?? [] } }
    }

    @Test func crowdIsStoredTogether() async throws {
        let store = try store()
        #expect(try await crowd(store, first: { _ in }) == Array(repeating: ["stored"], count: 10))
        #expect(try await store.statistics().documents == 10)
    }

    @Test func everyWriteIsAnsweredWhenTheCommitFails() async throws {
        let store = try store()
        let answers = try await crowd(
            store,
            first: { transaction in
                // A broken reference that is checked at the commit only.
                let connection = transaction.session.connection
                try connection.execute("COMMIT; PRAGMA foreign_keys = ON")
                try connection.execute("CREATE TEMP TABLE there(id INTEGER PRIMARY KEY)")
                try connection.execute("CREATE TEMP TABLE here(id REFERENCES there DEFERRABLE INITIALLY DEFERRED)")
                try connection.execute("BEGIN IMMEDIATE; INSERT INTO here VALUES(1)")
            })
        #expect(answers == Array(repeating: ["database"], count: 10))
        _ = try await store.save("after", "{}")
        #expect(try await store.get("d1") == nil)
    }

    @Test func everyWriteIsAnsweredWhenASavepointCannotBeReleased() async throws {
        let store = try store()
        let answers = try await crowd(store, first: { _ in }, fifth: { try $0.session.connection.execute("RELEASE job") })
        // Those before the fault and the faulty one lose their transaction; those behind it get one of their own.
        #expect(answers == Array(repeating: ["database"], count: 6) + Array(repeating: ["stored"], count: 4))
        #expect(try await store.statistics().documents == 4)
    }

    @Test func everyWriteIsAnsweredWhenTheTransactionIsLost() async throws {
        let store = try store()
        let answers = try await crowd(store, first: { _ in }, fifth: { try $0.session.connection.execute("ROLLBACK") })
        #expect(answers == Array(repeating: ["database"], count: 6) + Array(repeating: ["stored"], count: 4))
        #expect(try await store.statistics().documents == 4)
    }

    @Test func everyWriteIsAnsweredWhenTheDatabaseIsClosedMeanwhile() async throws {
        let store = try store()
        let database = store.database
        // From within a write: those that came before are done, none is lost.
        let answers = try await crowd(store, first: { _ in database.close() })
        #expect(answers == Array(repeating: ["stored"], count: 10))
        let late = Counts()
        database.write({ _ in SavedRevision(revision: rev("1-aa"), sequence: 1) }, completion: { late.note(0, $0) })
        #expect(late.values.withLock { $0 } == [0: ["closed"]])
        let again = try Database.open(folder: store.folder, name: "test")
        #expect(try await again.statistics().first?.documents == 10)
    }

    /// What many peers asked for would hold up a stop.
    @Test func readsThatWaitWhenTheDatabaseIsClosedAreAnsweredAndNotDone() async throws {
        let database = try store().database
        let (begun, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let done = Mutex(0)
        let answers = Mutex([Bool]())
        let read: @Sendable (@escaping @Sendable () -> Void) -> Void = { body in
            let answer: @Sendable (Result<Int, any Error>) -> Void = { result in
                let isDone = if case .success = result { true } else { false }
                answers.withLock { $0.append(isDone) }
            }
            database.read({ _ in
                body()
                return done.withLock { count in
                    count += 1
                    return count
                }
            }, completion: answer)
        }
        let readers = DatabaseOptions().readers
        for _ in 0..<readers {
            read { () -> Void in
                begun.signal()
                gate.wait()
            }
        }
        await withCheckedContinuation { (all: CheckedContinuation<Void, Never>) in
            DispatchQueue.global().async {
                for _ in 0..<readers { begun.wait() }
                all.resume()
            }
        }
        for _ in 0..<50 { read { () -> Void in } }
        let close = Task {
            await withCheckedContinuation { (end: CheckedContinuation<Void, Never>) in
                DispatchQueue.global().async {
                    database.close()
                    end.resume()
                }
            }
        }
        // While those that are under way are waited for.
        while answers.withLock({ $0.count }) < 50 { await Task.yield() }
        #expect(answers.withLock { $0 } == Array(repeating: false, count: 50))
        for _ in 0..<readers { gate.signal() }
        await close.value
        #expect(done.withLock { $0 } == readers)
        #expect(answers.withLock { $0.filter { $0 }.count } == readers)
    }

    @Test func droppedAnswerSaysThatTheDatabaseIsClosed() {
        let counts = Counts()
        do {
            _ = ClosureJob<SavedRevision>(Answer(database: "test") { counts.note(0, $0) }) { _ in throw StoreError.transactionEnded }
        }
        #expect(counts.values.withLock { $0 } == [0: ["closed"]])
    }
}
