import Documents
import Environment
import SQLite
import Synchronization

/// A database: documents of several collections with their revisions, notes on remotes, checkpoints and blobs.
///
/// One writer combines all waiting writes into one transaction and one disk sync; a few readers serve reads. They are workers of the environment:
/// threads, in production. A folder is owned by one process.
public final class Database: Sendable {
    public let name: String
    /// The database's own folder, `NAME.nightjar`.
    public let folder: String
    /// 32 hex digits, not revealed to peers (part of checkpoint identifiers). A copied database must get a new one.
    public let privateUUID: String
    /// 32 hex digits that may be revealed to peers.
    public let publicUUID: String
    public let blobs: BlobStore
    /// Whether documents may have empty keys and keys with NUL, see `DatabaseOptions.unusualKeys`.
    public let unusualKeys: Bool
    /// Maximum size of a document's body, see `DatabaseOptions.maxBodyBytes`.
    package let maxBodyBytes: Int
    /// Large documents that were stored since the database was opened.
    package let largeDocuments: LargeDocuments
    /// The environment it was opened with: components that serve only this database take their clock and their tasks from here.
    public let environment: Environment

    private let lock: any FileLock
    private let writes = JobQueue<WriteJob>()
    private let reads = JobQueue<Job<Session>>()
    private let known: Mutex<[CollectionName: Collection]>
    private let signals: ChangeSignals
    let problems: DatabaseProblems
    private let commits = CommitMeter()
    let file: DatabaseFile
    let versions: VersionUse
    private let idHash: IDHash
    let keepers: BranchKeepers
    private let isClosed = Atomic(false)
    private let isMaintainingIndexes = Atomic(false)

    /// Opens a database, or creates it if the folder or the file is absent; the folder's parent must exist. Blocks; not for event loops.
    /// - Throws: `StoreError.locked`, `.notADatabase`, `.schemaTooNew`, `.corrupt`, `.folder`, `.diskFull`. `.fileGone` if there was a database
    ///   before and its file is now missing or empty.
    public static func open(
        folder: String, name: String, options: DatabaseOptions = .init(), environment: Environment = .system
    ) throws(StoreError) -> Database {
        do throws(StoreError) {
            return try Database(folder: folder, name: name, options: options, environment)
        } catch { throw error.ofOpening }
    }

    private init(folder: String, name: String, options: DatabaseOptions, _ environment: Environment) throws(StoreError) {
        self.name = name
        self.folder = folder
        unusualKeys = options.unusualKeys
        maxBodyBytes = options.maxBodyBytes
        largeDocuments = options.largeDocuments
        self.environment = environment
        let problems = DatabaseProblems(report: options.onProblem)
        self.problems = problems
        let path = folder + "/db.sqlite3"
        try DatabaseFile.refuseIfLost(path, folder: folder, environment.files)
        lock = try Self.takeLock(folder, environment.files)
        blobs = try BlobStore(folder: folder + "/blobs", database: name, options: options, environment: environment, problems: problems)
        var writerOptions = options
        writerOptions.refusal = { [blobs] in blobs.refusal(of: $0, bytes: $1) }
        let session = try Opening.writerSession(path: path, options: writerOptions, environment: environment, problems: problems)
        file = try DatabaseFile(path, folder: folder, environment.files, problems)
        let signals = ChangeSignals()
        self.signals = signals
        let facts = try Self.facts(session)
        let versions = facts.versions
        if options.versionsEdits { versions.note() }
        self.versions = versions
        let keepers = BranchKeepers(facts.hasBranchKeepers)
        self.keepers = keepers
        session.idHash = facts.idHash
        idHash = facts.idHash
        privateUUID = facts.privateUUID
        publicUUID = facts.publicUUID
        known = Mutex(facts.collections)
        for (collection, sequence) in facts.sequences { signals.start(collection, sequence) }

        // From here on everything is initialised: if a worker cannot start, `deinit` stops those that were started.
        let workers = environment.workers
        do {
            for number in 0..<max(options.readers, 1) {
                let session = try Session(
                    path: path, writer: false, options: options, vfs: environment.sqliteVFS, problems: problems)
                session.idHash = facts.idHash
                let reader = Reader(session: session, queue: reads, number: number)
                reads.add(try workers.start(name: "read\(number) \(name)") { reader.turn() })
            }
            let writer = try Writer(session: session, file: file, queue: writes, environment: environment, problems: problems, commits: commits, versions: versions, keepers: keepers) {
                signals.committed($0)
            }
            writes.add(try workers.start(name: "write \(name)") { writer.turn() })
        } catch { throw StoreError(any: error, path: path) }
    }

    deinit { close() }

    private static func takeLock(_ folder: String, _ files: any FileSystem) throws(StoreError) -> any FileLock {
        let attempt = try StoreError.ofFiles { () throws(FileError) in
            try files.makeDurableFolder(folder)
            return try files.lock(folder + "/lock")
        }
        switch attempt {
        case .taken(let lock): return lock
        case .held(let pid): throw .locked(folder: folder, pid: pid)
        }
    }

    private static func facts(_ session: Session) throws(StoreError) -> (
        privateUUID: String, publicUUID: String, idHash: IDHash, collections: [CollectionName: Collection], sequences: [(Int, SequenceNumber)],
        versions: VersionUse, hasBranchKeepers: Bool
    ) {
        let view = ReadTransaction(session)
        var properties: [String: String] = [:]
        let statement = try session.prepare("SELECT key, value FROM properties")
        while try session.step(statement) { properties[statement.text(0)] = statement.text(1) }
        guard let privateUUID = properties["private_uuid"], let publicUUID = properties["public_uuid"],
            let hashKey = properties["id_hash_key"]
        else {
            throw .corrupt(path: session.path, detail: "the table of properties lacks the database's identifiers")
        }
        var collections: [CollectionName: Collection] = [:]
        var sequences: [(Int, SequenceNumber)] = []
        for collection in try view.collections() {
            collections[collection.name] = collection
            sequences.append((collection.id, try view.lastSequence(collection)))
        }
        let versions = VersionUse(properties[VersionProperty.source] != nil || properties[VersionProperty.peer] != nil, properties: properties)
        return (privateUUID, publicUUID, IDHash(key: hashKey), collections, sequences, versions, properties[BranchKeepers.property] != nil)
    }

    /// Finishes pending writes, stops the workers and releases the lock. Blocks until then; may be called repeatedly.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // Readers first, the writer last: the last connection to close moves the log into the database, which a reader cannot do.
        // Reads that peers requested and that have not started must not delay a stop.
        reads.close(dropsWaiting: true)
        writes.close()
        blobs.close()
        signals.finish()
        lock.release()
    }

    /// Closes after the workers have died, as in a simulated crash: queued jobs are answered without being done.
    package func abandon() {
        close()
        reads.drop()
        writes.drop()
        blobs.drop()
    }

    // MARK: transactions

    /// Runs `body` alone on the writer. Returns only when what it wrote is durable. It runs a second time if the disk was full for its transaction
    /// and has room afterwards.
    /// - Throws: what `body` throws (its changes are undone, other writes are not affected), or a `StoreError`.
    @discardableResult
    public func write<T: Sendable>(_ body: @escaping @Sendable (WriteTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            write(body) { continuation.resume(with: $0) }
        }
    }

    /// The same for callers that are not tasks. The completion runs on the writer, or here if the database is closed; it must not block.
    package func write<T: Sendable>(
        _ body: @escaping @Sendable (WriteTransaction) throws -> T, completion: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        let job = ClosureJob(Answer(database: name, completion), body)
        if !writes.push(job) { job.refuse(.closed(database: name)) }
    }

    /// Runs `body` on a reader, on one consistent snapshot.
    public func read<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            read(body) { continuation.resume(with: $0) }
        }
    }

    /// The same for callers that are not tasks. The completion runs on the reader, or here if the database is closed; it must not block.
    package func read<T: Sendable>(
        _ body: @escaping @Sendable (ReadTransaction) throws -> T, completion: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        let job = AnsweringJob<Session, T>(Answer(database: name, completion)) { Reader.view($0, body) }
        if !reads.push(job) { job.refuse(.closed(database: name)) }
    }

    /// Runs `body` on a reader and waits for it: for callers on threads of their own, never for an event loop or a task.
    public func readNow<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction) throws -> T) throws -> T {
        let answer = AwaitedAnswer<T>()
        read(body) { answer.give($0) }
        return try answer.wait(for: reads, environment.workers)
    }

    package func sideReader() throws(StoreError) -> SideReader {
        try SideReader(folder + "/db.sqlite3", vfs: environment.sqliteVFS, idHash)
    }

    /// A write for callers that may block.
    private func writeNow<T: Sendable>(_ body: @escaping @Sendable (WriteTransaction) throws -> T) throws(StoreError) -> T {
        let answer = AwaitedAnswer<T>()
        write(body) { answer.give($0) }
        do {
            return try answer.wait(for: writes, environment.workers)
        } catch { throw StoreError(any: error, path: folder) }
    }

    // MARK: collections

    public func collection(_ name: CollectionName) -> Collection? { known.withLock { $0[name] } }

    /// All collections in order of creation; the default one always exists.
    public var collections: [Collection] { known.withLock { $0.values.sorted { $0.id < $1.id } } }

    /// The collection, created if it does not exist, in which case this blocks for a commit.
    /// - Throws: `StoreError.tooManyCollections` and errors of the disk.
    public func createCollection(_ name: CollectionName) throws(StoreError) -> Collection {
        if let found = collection(name) { return found }
        let made = try writeNow { transaction in try transaction.createCollection(name) }
        known.withLock { $0[name] = made }
        return made
    }

    // MARK: changes

    /// The newest committed sequence of the collection: the current one at once, then each time it has changed. A slow reader sees only the newest.
    /// Ends when the database is closed.
    public func changeSignal(_ collection: Collection) -> AsyncStream<SequenceNumber> { signals.stream(collection.id) }

    /// The same for callers that are not tasks: the handler is called here with the current sequence, then on the writer after each commit, before
    /// the writes are answered; it must not block. Concurrent calls may arrive out of order; the highest sequence counts.
    package func observeChanges(
        _ collection: Collection, _ handler: @escaping @Sendable (SequenceNumber) -> Void
    ) -> ChangeObservation {
        signals.observe(collection.id, handler)
    }

    // MARK: state and maintenance

    /// Returns false if the maintenance is already in progress.
    func beginIndexMaintenance() -> Bool { !isMaintainingIndexes.exchange(true, ordering: .acquiringAndReleasing) }
    func endIndexMaintenance() { isMaintainingIndexes.store(false, ordering: .releasing) }

    /// Counts the documents of each collection, its pending conflicts, and what is held and rejected.
    ///
    /// - Throws: ``StoreError``: the database is closed, or cannot be read.
    public func statistics() async throws -> [CollectionStatistics] {
        try await read { transaction in try transaction.statistics() }
    }

    /// Unreadable documents encountered since the start; at most `StoreLimits.damagedDocuments`.
    public var damagedDocuments: [DamagedDocument] { problems.documents }

    /// Whether more documents or blobs are damaged than ``damagedDocuments`` and ``lostBlobs()`` list.
    public var hasMoreProblems: Bool { problems.isCapped }

    /// Whether a peer with version vectors has connected, or edits get versions in any case.
    public var hasVersions: Bool { versions.isInUse }

    /// The current problem of the database's file, as far as encountered since the start. Checks that the file exists; blocks.
    public func fileProblem() -> StoreError? {
        _ = try? file.check()
        return problems.file
    }

    /// The disk's error in the last write, and since when, in seconds since 1970, no write has succeeded; nil while writes work. While they fail, a
    /// small write is tried, so that a recovered disk is noticed without waiting for somebody's write.
    ///
    /// - Parameter hasRoom: whether there is free space; without it, a small write may succeed and prove nothing.
    public func writesFailing(hasRoom: Bool) async -> (error: StoreError, since: Int64)? {
        guard let failing = problems.writesFailing else { return nil }
        if hasRoom { _ = try? await write { try $0.tryWriting() } }
        return problems.writesFailing.map { ($0.error, failing.since) }
    }

    /// Durations of its commits since it was opened.
    public var commitTimes: CommitTimes { commits.now }

    /// Size of the database file and its log, without blobs.
    public func sizeBytes() -> Int64 {
        ["/db.sqlite3", "/db.sqlite3-wal"].reduce(0) { $0 + Int64(clamping: environment.files.size(folder + $1) ?? 0) }
    }

    /// Removes blobs that no stored revision refers to and that are older than the grace period, drops leftover bodies, and returns free pages to the
    /// file system. In small steps, so that writes can proceed in between.
    public func compact() async throws -> CompactionReport { try await Compaction.run(self) }
}
