import Documents
import Encodings
import Environment
import SQLite

/// The writer's work: combines waiting jobs into transactions and commits each durably.
///
/// Unchecked: used only within its worker's turns, which run one at a time. Only the turn retains it, so the connection is closed where it was used,
/// not where the last closure is released.
final class Writer: @unchecked Sendable {
    private let session: Session
    private let file: DatabaseFile
    private let queue: JobQueue<WriteJob>
    private let environment: Environment
    #if DEBUG
    /// For fault injection.
    private var forgotten: [WriteJob] = []
    #endif
    private let state: WriterState
    private let problems: DatabaseProblems
    private let commits: CommitMeter
    /// Set if the disk failed for a job of this transaction.
    private var diskFailure: StoreError?
    /// Number of jobs at the front to be retried, each in a transaction of its own, because the disk was full, or one of them read a damaged page: a
    /// job that needs much space, or reads damaged data, must not fail the others as well.
    private var secondTries = 0
    /// Nothing is written any more, since SQLite found the file malformed.
    private var wasDamaged = false
    /// Number of pages in the log after the last commit.
    private var loggedPages: Int32 = 0
    /// Receives the newest sequences after each commit.
    private let onCommit: @Sendable ([(collection: Int, sequence: SequenceNumber)]) -> Void

    init(
        session: Session, file: DatabaseFile, queue: JobQueue<WriteJob>, environment: Environment, problems: DatabaseProblems, commits: CommitMeter,
        versions: VersionUse, keepers: BranchKeepers, onCommit: @escaping @Sendable ([(collection: Int, sequence: SequenceNumber)]) -> Void
    ) throws(StoreError) {
        self.session = session
        self.file = file
        self.queue = queue
        self.environment = environment
        self.problems = problems
        self.commits = commits
        self.onCommit = onCommit
        state = WriterState(versions, keepers, random: environment.random, home: file.home)
        state.counters = try Self.readCounters(session)
        try session.options.usage.count(session)
    }

    static func readCounters(_ session: Session) throws(StoreError) -> [Counters?] {
        var counters: [Counters?] = [nil]
        let statement = try session.cached("SELECT id, last_sequence, documents, deleted FROM collections ORDER BY id")
        defer { statement.reset() }
        while try session.step(statement) {
            let id = Int(clamping: statement.integer(0))
            guard id > 0 && id <= StoreLimits.maxCollections else {
                throw session.damaged("collection number \(id)")
            }
            while counters.count <= id { counters.append(nil) }
            let (documents, deleted) = (statement.integer(2), statement.integer(3))
            guard documents.magnitude <= Counters.bound.magnitude, deleted.magnitude <= Counters.bound.magnitude else {
                throw session.damaged("collection number \(id) counts \(Plural.count(documents, "document")) and \(Plural.count(deleted, "tombstone"))")
            }
            counters[id] = Counters(
                lastSequence: try session.checked(lastSequence: statement.integer(1)), documents: documents, deleted: deleted)
        }
        return counters
    }

    /// Runs the waiting jobs.
    func turn() {
        while true {
            var waiting = queue.take(upTo: StoreLimits.maxJobsPerCommit, worker: 0)[...]
            if waiting.isEmpty { return }
            while !waiting.isEmpty { commit(&waiting) }
        }
    }

    // MARK: one transaction

    /// Runs jobs from the front of `waiting` in one transaction and answers them.
    private func commit(_ waiting: inout ArraySlice<WriteJob>) {
        var done: [WriteJob] = []
        let atBegin = state.counters
        state.rows = 0
        state.sizes = []
        state.wallNanoseconds = environment.time.wallNanoseconds()
        state.now = environment.time.wallSeconds()
        session.failure = nil
        session.hasReadDamage = false
        diskFailure = nil
        let isSecondTry = secondTries > 0
        secondTries -= isSecondTry ? 1 : 0
        do {
            try refuseIfDamaged()
            try session.run(session.begin)
            while true {
                while let job = waiting.first, state.rows < StoreLimits.maxRowsPerCommit {
                    waiting.removeFirst()
                    done.append(job)
                    try run(job, isFirst: done.count == 1)
                    if isSecondTry { break }
                }
                // Jobs that arrived in the meantime join this commit instead of waiting for one of their own.
                guard !isSecondTry, waiting.isEmpty, state.rows < StoreLimits.maxRowsPerCommit, done.count < StoreLimits.maxJobsPerCommit
                else { break }
                waiting = queue.takeWaiting(upTo: StoreLimits.maxJobsPerCommit - done.count)[...]
                if waiting.isEmpty { break }
            }
            let news = try writeCounters()
            try flushIndexes()
            // Data written to a deleted file would be lost.
            try file.check()
            try session.options.usage.count(session)
            if environment.hasPlanted(.acknowledgedBeforeCommit) { for job in done { job.commit() } }
            let begun = environment.time.monotonicNanoseconds()
            try session.commitWrites()
            if state.rows > 0 || !news.isEmpty { commits.add(environment.time.monotonicNanoseconds() - begun) }
            if !news.isEmpty { onCommit(news) }
            if diskFailure != nil || state.rows > 0 || !news.isEmpty { problems.noteWrite(diskFailure, now: state.now) }
            for large in session.options.largeDocuments.note(state.sizes, now: state.now) { session.options.onLargeDocument(large) }
            for job in done { job.commit() }
        } catch {
            if session.connection.isInTransaction { try? session.connection.execute("ROLLBACK") }
            state.counters = atBegin
            state.indexes = [:]
            state.clock.forgetWritten()
            session.forgetIndexes()
            countLog()
            diskFailure = nil
            let hasRoomNow = error.isDiskError && session.options.onDiskFailure()
            if hasRoomNow, error.isOutOfSpace, !isSecondTry {
                secondTries = max(1, done.count)
                waiting = (done + waiting)[...]
                moveLog()
                return
            }
            // One of several jobs read damaged data. The writes of the others are sound.
            if session.hasReadDamage, problems.damage == nil, !isSecondTry, done.count > 1 {
                secondTries = done.count
                waiting = (done + waiting)[...]
                return
            }
            if error.isDiskError { problems.noteWrite(error, now: state.now) }
            if problems.damage != nil, !wasDamaged {
                wasDamaged = true
                file.setDamageMarker()
            }
            for job in done { job.refuse(error) }
            if done.isEmpty {
                // Not even BEGIN succeeded, or the file is malformed. These jobs must fail, or the queue would be stuck on them.
                #if DEBUG
                if environment.hasPlanted(.unansweredWrite) { forgotten += waiting } else { for job in waiting { job.refuse(error) } }
                #else
                for job in waiting { job.refuse(error) }
                #endif
                waiting = []
                secondTries = 0
            }
        }
        countLog()
        if diskFailure != nil { _ = session.options.onDiskFailure() }
        moveLog()
    }

    private func refuseIfDamaged() throws(StoreError) {
        if let damage = problems.damage { throw damage }
        guard wasDamaged else { return }
        wasDamaged = false
        // The file has been found sound: SQLite's cache may still contain what it found malformed.
        try? session.connection.execute("PRAGMA shrink_memory")
    }

    private func countLog() {
        let pages = session.connection.loggedPages
        // The log restarts if all of it was checkpointed.
        session.options.usage.ended(log: pages >= loggedPages ? pages - loggedPages : pages)
        loggedPages = pages
    }

    /// Runs one job so that its failure rolls back only its own work. Throws if the transaction is lost.
    private func run(_ job: WriteJob, isFirst: Bool) throws(StoreError) {
        let (before, sizes) = (state.counters, state.sizes.count)
        session.failure = nil
        // The first job needs no savepoint: there is no earlier work to keep.
        if !isFirst { try session.run(session.savepoint) }
        let transaction = WriteTransaction(session, state)
        let succeeded = job.run(transaction)
        transaction.isActive = false
        guard session.connection.isInTransaction else {
            throw session.failure ?? .database(code: 0, message: "the transaction was rolled back", sql: "")
        }
        if let failure = session.failure {
            if let damage = problems.damage { throw damage }
            // Even rolling back to the savepoint would leave a transaction that accepts nothing.
            if session.hasReadDamage, !isFirst { throw failure }
        }
        if succeeded && session.failure == nil {
            if !isFirst { try session.run(session.release) }
            try session.forEachIndex { $0.keep() }
            return
        }
        state.counters = before
        state.sizes.removeSubrange(sizes...)
        state.indexes = [:]
        state.clock.forgetWritten()
        try session.forEachIndex { $0.putBack() }
        let failure = session.failure
        if let failure, failure.isDiskError { diskFailure = failure }
        if isFirst {
            try session.execute("ROLLBACK")
            session.hasReadDamage = false
            try session.run(session.begin)
        } else {
            try session.run(session.rollbackTo)
            try session.run(session.release)
        }
        session.failure = nil
        // The closure swallowed a failure of SQLite: its caller must learn that its work is rolled back.
        if succeeded, let failure { job.undo(failure) }
    }

    private func writeCounters() throws(StoreError) -> [(collection: Int, sequence: SequenceNumber)] {
        var news: [(collection: Int, sequence: SequenceNumber)] = []
        for id in state.counters.indices {
            guard var counters = state.counters[id], counters.isChanged else { continue }
            let statement = try session.cached("UPDATE collections SET last_sequence = ?2, documents = ?3, deleted = ?4 WHERE id = ?1")
            statement.bind(1, Int64(id))
            statement.bind(2, counters.lastSequence)
            statement.bind(3, counters.documents)
            statement.bind(4, counters.deleted)
            try session.run(statement)
            counters.isChanged = false
            state.counters[id] = counters
            news.append((id, SequenceNumber(counters.lastSequence)))
        }
        return news
    }

    private func flushIndexes() throws(StoreError) {
        for counters in state.counters.enumerated() {
            guard let found = counters.element, let index = session.index(counters.offset) else { continue }
            try index.flushIfLong(documents: found.documents + found.deleted, lastSequence: found.lastSequence)
        }
    }

    // MARK: write-ahead log

    /// Checkpoints the log when it has grown, after the callers have their answers.
    private func moveLog() {
        let pages = session.connection.loggedPages
        do throws(SQLiteError) {
            if state.wantsShortLog {
                // Does not wait for readers: while there is one, the next commit tries again.
                session.connection.setBusyTimeout(milliseconds: 0)
                defer { session.connection.setBusyTimeout(milliseconds: session.options.busyTimeoutMilliseconds) }
                try session.connection.checkpoint(.truncate)
                (state.wantsShortLog, state.logFailure) = (false, nil)
                return
            }
            guard pages >= session.options.usage.logPages else { return }
            if pages >= StoreLimits.forcedCheckpointPages {
                session.connection.setBusyTimeout(milliseconds: StoreLimits.checkpointWaitMilliseconds)
                defer { session.connection.setBusyTimeout(milliseconds: session.options.busyTimeoutMilliseconds) }
                try session.connection.checkpoint(.restart)
            } else {
                try session.connection.checkpoint(.passive)
            }
            state.logFailure = nil
        } catch {
            // No data is lost: everything is in the log, and the next commit tries again.
            state.logFailure = StoreError(error, path: session.path)
        }
    }
}
