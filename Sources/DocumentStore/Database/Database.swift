import Documents
import Environment
import SQLite
import Synchronization

/// A database: documents of several collections with their revisions, what is known of remotes, checkpoints and blobs.
///
/// One writer gathers all waiting writes into one transaction and one sync of the disk; a few readers serve reads. They are
/// workers of the environment: threads, in life. One process owns the folder.
public final class Database: Sendable {
    public let name: String
    /// The database's own folder, `NAME.nightjar`.
    public let folder: String
    /// 32 hex digits; not told to peers (part of checkpoint identifiers). A copied database must get a new one.
    public let privateUUID: String
    /// 32 hex digits that peers may know.
    public let publicUUID: String
    public let blobs: BlobStore
    /// Whether documents may have empty keys and keys with NUL, see `DatabaseOptions.unusualKeys`.
    public let unusualKeys: Bool
    /// Bytes of a document's body, see `DatabaseOptions.maxBodyBytes`.
    package let maxBodyBytes: Int
    /// Documents that were stored since it was opened and are large.
    package let largeDocuments: LargeDocuments
    /// What it was opened with: what works for one database alone takes its clock and its tasks from here.
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
    private let isTendingIndexes = Atomic(false)

    /// Opens a database, or creates it if the folder or the file is absent; the folder's parent must exist.
    /// Blocks; not for event loops.
    /// - Throws: `StoreError.locked`, `.notADatabase`, `.schemaTooNew`, `.corrupt`, `.folder`, `.diskFull`.
    ///   `.fileGone` where there was a database before and its file is not there any more, or empty.
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
        let session = try Opening.writerSession(path: path, options: options, environment: environment, problems: problems)
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

        // From here on all is set: when a worker cannot start, `deinit` ends those that were started.
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

    /// Finishes the writes that wait, ends the workers and gives the lock back. Blocks until then; may be called again.
    public func close() {
        guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
        // Readers first, the writer last: the last connection to close moves the log into the database, which a reader cannot.
        // What peers asked for and nobody has looked up yet must not hold up a stop.
        reads.close(dropsWaiting: true)
        writes.close()
        blobs.close()
        signals.finish()
        lock.release()
    }

    /// Closes when the workers have died, as they do in a simulated crash: what waits is answered, and not done.
    package func abandon() {
        close()
        reads.drop()
        writes.drop()
        blobs.drop()
    }

    // MARK: transactions

    /// Runs `body` on the writer, alone. Returns only when what it wrote is durable. It runs once more where the disk was full for its
    /// transaction, and then had room.
    /// - Throws: what `body` throws (its changes are undone, other writes are not affected), or a `StoreError`.
    @discardableResult
    public func write<T: Sendable>(_ body: @escaping @Sendable (WriteTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            write(body) { continuation.resume(with: $0) }
        }
    }

    /// The same for callers that are no tasks. The completion runs on the writer, or here if the database is closed; it must
    /// not block.
    package func write<T: Sendable>(
        _ body: @escaping @Sendable (WriteTransaction) throws -> T, completion: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        let job = ClosureJob(Answer(database: name, completion), body)
        if !writes.push(job) { job.refuse(.closed(database: name)) }
    }

    /// Runs `body` on a reader, on one consistent view.
    public func read<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            read(body) { continuation.resume(with: $0) }
        }
    }

    /// The same for callers that are no tasks. The completion runs on the reader, or here if the database is closed; it must
    /// not block.
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

    /// All collections in the order of their creation; the default one always exists.
    public var collections: [Collection] { known.withLock { $0.values.sorted { $0.id < $1.id } } }

    /// The collection, made if it does not exist. Blocks for a commit then.
    /// - Throws: `StoreError.tooManyCollections` and errors of the disk.
    public func createCollection(_ name: CollectionName) throws(StoreError) -> Collection {
        if let found = collection(name) { return found }
        let made = try writeNow { transaction in try transaction.createCollection(name) }
        known.withLock { $0[name] = made }
        return made
    }

    // MARK: changes

    /// The newest committed sequence of the collection: the present one at once, then whenever it has changed.
    /// A slow reader sees only the newest. Ends when the database is closed.
    public func changeSignal(_ collection: Collection) -> AsyncStream<SequenceNumber> { signals.stream(collection.id) }

    /// The same for callers that are no tasks: the handler is called here with the present sequence, then after each commit on the
    /// writer, before the writes are answered; it must not block. The calls may come out of order when they meet; the highest sequence counts.
    package func observeChanges(
        _ collection: Collection, _ handler: @escaping @Sendable (SequenceNumber) -> Void
    ) -> ChangeObservation {
        signals.observe(collection.id, handler)
    }

    // MARK: state and maintenance

    /// False where somebody else is at it.
    func beginTendingIndexes() -> Bool { !isTendingIndexes.exchange(true, ordering: .acquiringAndReleasing) }
    func endTendingIndexes() { isTendingIndexes.store(false, ordering: .releasing) }

    public func statistics() async throws -> [CollectionStatistics] {
        try await read { transaction in try transaction.statistics() }
    }

    /// Documents that cannot be read, as far as they were met since the start; at most `StoreLimits.damagedDocuments`.
    public var damagedDocuments: [DamagedDocument] { problems.documents }

    /// More documents or blobs are damaged than ``damagedDocuments`` and ``lostBlobs()`` name.
    public var hasMoreProblems: Bool { problems.isCapped }

    /// A peer of version vectors has been here, or edits get versions in any case.
    public var hasVersions: Bool { versions.isInUse }

    /// What is wrong with the database's file now, as far as it was met since the start. Looks for the file; blocks.
    public func fileProblem() -> StoreError? {
        _ = try? file.check()
        return problems.file
    }

    /// The disk's error of the last write, and since when (seconds since 1970) none has worked; nil while writes work. While they fail a
    /// small one is tried, so that a disk that works again is noticed without waiting for somebody's write.
    ///
    /// - Parameter hasRoom: whether there is free space; without, a small write may work and tell nothing.
    public func writesFailing(hasRoom: Bool) async -> (error: StoreError, since: Int64)? {
        guard let failing = problems.writesFailing else { return nil }
        if hasRoom { _ = try? await write { try $0.tryWriting() } }
        return problems.writesFailing.map { ($0.error, failing.since) }
    }

    /// How long its commits took, since it was opened.
    public var commitTimes: CommitTimes { commits.now }

    /// Size of the database file and its log, without blobs.
    public func sizeBytes() -> Int64 {
        ["/db.sqlite3", "/db.sqlite3-wal"].reduce(0) { $0 + Int64(clamping: environment.files.size(folder + $1) ?? 0) }
    }

    /// Removes blobs that no stored revision refers to and that are older than the grace time, drops leftover
    /// bodies, and gives free pages back to the file system. In small steps, so that writes go on in between.
    public func compact() async throws -> CompactionReport { try await Compaction.run(self) }
}
