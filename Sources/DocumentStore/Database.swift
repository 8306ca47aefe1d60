import Documents
import Glibc
import SQLite
import Synchronization

/// A database: documents of several collections with their revisions, what is known of remotes, checkpoints and blobs.
///
/// One writer thread gathers all waiting writes into one transaction and one sync of the disk; a few reader threads
/// serve reads. One process owns the folder.
public final class Database: Sendable {
    public let name: String
    /// The database's own folder, `NAME.nightjar`.
    public let folder: String
    /// 32 hex digits; not told to peers (part of checkpoint identifiers). A copied database must get a new one.
    public let privateUUID: String
    /// 32 hex digits that peers may know.
    public let publicUUID: String
    public let blobs: BlobStore

    private let lock: LockFile
    private let writes = JobQueue<WriteJob>()
    let reads = JobQueue<ReadJob>()
    /// Readers first, the writer last: the last connection to close moves the log into the database, which
    /// a reader cannot.
    private let threads: Mutex<(readers: [Thread], writer: [Thread])>
    private let known: Mutex<[CollectionName: Collection]>
    private let signals: ChangeSignals

    /// Opens a database, or creates it if the folder or the file is absent; the folder's parent must exist.
    /// Blocks; not for event loops.
    /// - Throws: `StoreError.locked`, `.notADatabase`, `.schemaTooNew`, `.corrupt`, `.folder`, `.diskFull`.
    public static func open(
        folder: String, name: String, options: DatabaseOptions = .init()
    ) throws(StoreError) -> Database {
        try Database(folder: folder, name: name, options: options)
    }

    private init(folder: String, name: String, options: DatabaseOptions) throws(StoreError) {
        self.name = name
        self.folder = folder
        try Files.makeFolder(folder)
        lock = try LockFile(folder: folder)
        blobs = try BlobStore(folder: folder + "/blobs", options: options)
        let path = folder + "/db.sqlite3"
        let session = try Opening.writerSession(path: path, options: options)
        let signals = ChangeSignals()
        self.signals = signals
        let facts = try Self.facts(session)
        session.idHash = facts.idHash
        privateUUID = facts.privateUUID
        publicUUID = facts.publicUUID
        known = Mutex(facts.collections)
        let writer = Handover(try Writer(session: session, queue: writes) { signals.committed($0) })
        for (collection, sequence) in facts.sequences { signals.start(collection, sequence) }

        var readers: [Thread] = []
        let writing: Thread
        do {
            for number in 0..<max(options.readers, 1) {
                let session = try Session(path: path, writer: false, options: options)
                session.idHash = facts.idHash
                let reader = Handover(session)
                readers.append(try Thread(name: "read\(number) \(name)") { [reads] in
                    if let session = reader.take() { Reader.run(session, reads) }
                })
            }
            writing = try Thread(name: "write \(name)") { writer.take()?.run() }
        } catch {
            reads.close()
            for thread in readers { thread.join() }
            throw error
        }
        threads = Mutex((readers, [writing]))
    }

    deinit { close() }

    private static func facts(_ session: Session) throws(StoreError) -> (
        privateUUID: String, publicUUID: String, idHash: IDHash, collections: [CollectionName: Collection], sequences: [(Int, SequenceNumber)]
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
        return (privateUUID, publicUUID, IDHash(key: hashKey), collections, sequences)
    }

    /// Finishes the writes that wait, ends the threads and gives the lock back. Blocks until then; may be called again.
    public func close() {
        let running = threads.withLock { threads in
            defer { threads = ([], []) }
            return threads
        }
        guard !running.writer.isEmpty else { return }
        reads.close()
        for thread in running.readers { thread.join() }
        writes.close()
        for thread in running.writer { thread.join() }
        blobs.close()
        signals.finish()
        lock.release()
    }

    // MARK: transactions

    /// Runs `body` on the writer thread, alone. Returns only when what it wrote is durable.
    /// - Throws: what `body` throws (its changes are undone, other writes are not affected), or a `StoreError`.
    @discardableResult
    public func write<T: Sendable>(_ body: @escaping @Sendable (WriteTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            submit(ClosureJob(body) { continuation.resume(with: $0) })
        }
    }

    /// Runs `body` on a reader thread, on one consistent view.
    public func read<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            let accepted = reads.push { session in continuation.resume(with: Reader.view(session, body)) }
            if !accepted { continuation.resume(throwing: StoreError.closed(database: name)) }
        }
    }

    private func submit<T>(_ job: ClosureJob<T>) {
        if !writes.push(job) { job.refuse(StoreError.closed(database: name)) }
    }

    /// A write for callers that may block.
    private func writeBlocking<T: Sendable>(_ body: @escaping @Sendable (WriteTransaction) throws -> T) throws(StoreError) -> T {
        let answer = JobQueue<Result<T, any Error>>()
        submit(ClosureJob(body) { _ = answer.push($0) })
        guard let result = answer.take(upTo: 1).first else { throw .closed(database: name) }
        switch result {
        case .success(let value): return value
        case .failure(let error as StoreError): throw error
        case .failure(let error): throw .database(code: 0, message: "\(error)", sql: "")
        }
    }

    // MARK: collections

    public func collection(_ name: CollectionName) -> Collection? { known.withLock { $0[name] } }

    /// All collections in the order of their creation; the default one always exists.
    public var collections: [Collection] { known.withLock { $0.values.sorted { $0.id < $1.id } } }

    /// The collection, made if it does not exist. Blocks for a commit then.
    /// - Throws: `StoreError.tooManyCollections` and errors of the disk.
    public func createCollection(_ name: CollectionName) throws(StoreError) -> Collection {
        if let found = collection(name) { return found }
        let made = try writeBlocking { transaction in try transaction.createCollection(name) }
        known.withLock { $0[name] = made }
        return made
    }

    // MARK: changes

    /// The newest committed sequence of the collection: the present one at once, then whenever it has changed.
    /// A slow reader sees only the newest. Ends when the database is closed.
    public func changeSignal(_ collection: Collection) -> AsyncStream<SequenceNumber> { signals.stream(collection.id) }

    // MARK: state and maintenance

    public func statistics() async throws -> [CollectionStatistics] {
        try await read { transaction in try transaction.statistics() }
    }

    /// Size of the database file and its log, without blobs.
    public func sizeBytes() -> Int64 {
        ["/db.sqlite3", "/db.sqlite3-wal"].reduce(0) { $0 + (Files.size(folder + $1) ?? 0) }
    }

    /// Removes blobs that no stored revision refers to and that are older than the grace time, drops leftover
    /// bodies, and gives free pages back to the file system. In small steps, so that writes go on in between.
    public func compact() async throws -> CompactionReport {
        var report = CompactionReport()
        let before = sizeBytes()
        let blobs = blobs
        let candidates = try await blobs.perform { try $0.old() }
        for start in stride(from: 0, to: candidates.count, by: 200) {
            let some = candidates[start..<min(start + 200, candidates.count)]
            // On the writer thread: no revision can begin to refer to a blob in the meantime.
            let freed = try await write { transaction in
                try some.map { digest in
                    try transaction.isBlobReferenced(digest) ? nil : blobs.removeIfStillOld(digest)
                }
            }
            for bytes in freed.compactMap({ $0 }) {
                report.blobsRemoved += 1
                report.blobBytesFreed += bytes
            }
        }
        for collection in collections {
            report.bodiesRemoved += try await write { transaction in try transaction.dropLeftoverBodies(collection) }
        }
        while try await write({ transaction in try transaction.vacuumStep() }) {}
        // The step before ended with a short log; this waits for that.
        try await write { _ in }
        report.fileBytesFreed = max(0, before - sizeBytes())
        return report
    }
}

extension ClosureJob {
    /// Was not accepted by the queue.
    func refuse(_ error: StoreError) { completion(.failure(error)) }
}

extension WriteTransaction {
    func createCollection(_ name: CollectionName) throws(StoreError) -> Collection {
        let existing = try collections()
        if let found = existing.first(where: { $0.name == name }) { return found }
        guard existing.count < StoreLimits.maxCollections else {
            throw .tooManyCollections(limit: StoreLimits.maxCollections)
        }
        let made: Collection
        do {
            made = try Opening.addCollection(session.connection, name)
        } catch {
            throw session.note(error)
        }
        while state.counters.count <= made.id { state.counters.append(nil) }
        state.counters[made.id] = Counters(lastSequence: 0, documents: 0, deleted: 0)
        return made
    }

    /// Bodies whose document does not claim any. There should be none.
    func dropLeftoverBodies(_ collection: Collection) throws(StoreError) -> Int {
        let n = collection.id
        try active().execute("""
            DELETE FROM bodies_\(n) WHERE NOT EXISTS \
            (SELECT 1 FROM documents_\(n) d WHERE d.id = bodies_\(n).id AND d.flags & \(DocumentFlags.bodies) != 0)
            """)
        return session.connection.changes
    }

    /// Gives some free pages back. False when there are none left.
    func vacuumStep() throws(StoreError) -> Bool {
        try active().execute("PRAGMA incremental_vacuum(2000)")
        let free: Int64?
        do { free = try session.connection.integer("PRAGMA freelist_count") } catch { throw session.note(error) }
        guard let free, free > 0 else {
            state.wantsShortLog = true
            return false
        }
        return true
    }
}
