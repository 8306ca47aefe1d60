import Digests
import Documents
import Encodings
import Environment
import Synchronization

/// Blobs as files named by their digest. Methods that are neither `async` nor have a completion closure must be called inside `perform`.
public final class BlobStore: Sendable {
    let folder: String
    let files: any FileSystem
    private let problems: DatabaseProblems
    private let database: String
    let environment: Environment
    private let limit: Atomic<UInt64>
    let openBlobs: OpenBlobs
    private let graceSeconds: Int64
    let refusal: @Sendable (StoreWrite, Int) -> String?
    let usage: StoreUsage
    let tally: BlobCount
    private let queue = JobQueue<Job<BlobStore>>()
    /// Number of workers started.
    private let workers = Mutex(0)
    /// Until the folder is synced, new names in it may be lost in a power failure; this includes those left by an earlier process.
    private let names = Mutex(FolderNames())
    /// Partly received blobs whose connections broke.
    let unfinished = Mutex(UnfinishedBlobs())
    /// Results of verifications.
    let checks = Mutex(BlobChecks())
    let arrivals = BlobArrivals()

    /// Tracks which names in the folder are known to be durable.
    private struct FolderNames {
        /// Number of files being renamed into the folder.
        var underWay = 0
        /// Counts the renames, and up to which one the folder has been synced.
        var changes: UInt64 = 1
        var synced: UInt64 = 0

        var isBehind: Bool { underWay > 0 || synced < changes }
    }

    /// Workers for blob files: two, so that one slow sync does not block all reading.
    private static let workerCount = 2
    private static let temporaryPrefix = "incoming-"

    init(folder: String, database: String, options: DatabaseOptions, environment: Environment, problems: DatabaseProblems) throws(StoreError) {
        self.folder = folder
        self.database = database
        self.problems = problems
        self.environment = environment
        files = environment.files
        limit = Atomic(options.maxBlobBytes)
        openBlobs = options.openBlobs
        graceSeconds = options.blobGraceSeconds
        (refusal, usage, tally) = (options.refusal, options.usage, BlobCount(options.usage))
        var isEmpty = true
        try StoreError.ofFiles { () throws(FileError) in
            try files.makeDurableFolder(folder)
            for name in try files.names(in: folder) {
                // Left unfinished by an earlier process.
                if name.hasPrefix(Self.temporaryPrefix) { try? files.remove(folder + "/" + name) } else { isEmpty = false }
            }
        }
        usage.areBlobsKnown = isEmpty
    }

    /// Size of the largest blob accepted, in bytes. A change also applies to blobs being received.
    public var maxBytes: UInt64 {
        get { limit.load(ordering: .relaxed) }
        set { limit.store(newValue, ordering: .relaxed) }
    }

    /// Runs blocking file work on the blob workers.
    public func perform<T: Sendable>(_ body: @escaping @Sendable (BlobStore) throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            perform(body) { continuation.resume(with: $0) }
        }
    }

    /// The same for callers that are not tasks. The completion runs on a blob worker, or here if the store is closed; it must not block. There are
    /// several workers, so a job that must follow another has to be submitted when that one has completed.
    package func perform<T: Sendable>(
        _ body: @escaping @Sendable (BlobStore) throws -> T, completion: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        let job = AnsweringJob<BlobStore, T>(Answer(database: database, completion)) { blobs in Result { try body(blobs) } }
        do throws(ThreadError) {
            try startWorkers()
        } catch {
            return job.refuse(.database(code: error.number, message: "\(error)", sql: ""))
        }
        if !queue.push(job) { job.refuse(.closed(database: database)) }
    }

    /// Starts the workers when they are first needed, since many databases have no blobs.
    private func startWorkers() throws(ThreadError) {
        let failure: ThreadError? = workers.withLock { count in
            while count < Self.workerCount, !queue.isClosed {
                do throws(ThreadError) {
                    let number = count
                    // The store stops its workers before it is released; a worker must not keep it alive.
                    queue.add(try environment.workers.start(name: "blobs") { [weak self, queue] in
                        while let job = queue.next(worker: number) {
                            if let self { job.run(self) }
                        }
                    })
                    count += 1
                } catch {
                    return error
                }
            }
            return nil
        }
        if let failure { throw failure }
    }

    func close() { queue.close() }

    /// Drops the queued jobs, when the workers have died.
    func drop() { queue.drop() }

    // MARK: reading

    /// Seconds since 1970.
    var now: Int64 { environment.time.wallSeconds() }

    func path(_ digest: BlobDigest) -> String { folder + "/" + digest.hex }

    /// Whether the blob is durably stored. The caller is assumed to be about to refer to it: asking renews its grace period.
    public func contains(_ digest: BlobDigest) -> Bool { contains(digest, arrived: nil) }

    /// - Parameter arrived: the blobs of the request that asks. A blob that another request is bringing then belongs to this one as well.
    package func contains(_ digest: BlobDigest, arrived: ArrivedBlobs?) -> Bool {
        arrivals.use(digest, arrived)
        let path = path(digest)
        guard let facts = try? files.facts(path) else { return false }
        // The file was seen before this sync, which therefore covers it.
        if names.withLock({ $0.isBehind }), (try? syncNames()) == nil { return false }
        if environment.time.wallSeconds() - facts.modified > graceSeconds / 2 { try? files.touch(path) }
        return true
    }

    /// Size in bytes; `nil` if the blob is not stored.
    public func size(_ digest: BlobDigest) -> UInt64? { files.size(path(digest)) }

    /// The whole blob.
    /// - Throws: `StoreError.blobMissing`; `.blobTooLarge` if it has more than `limit` bytes; `.blobAltered`.
    public func read(_ digest: BlobDigest, limit: Int = 20 << 20) throws(StoreError) -> [UInt8] {
        let reader = try reader(digest)
        guard reader.size <= UInt64(max(limit, 0)) else { throw .blobTooLarge(limit: UInt64(max(limit, 0))) }
        return try reader.read(offset: 0, count: Int(reader.size))
    }

    /// All blobs in order of name; each takes 20 bytes of memory.
    public func digests() throws(StoreError) -> [BlobDigest] {
        let names = try StoreError.ofFiles { () throws(FileError) in try files.names(in: folder) }
        return names.filter { $0.utf8.count == 40 }.sorted().compactMap { Hex.decode($0).flatMap { BlobDigest(bytes: $0) } }
    }

    /// Opens the blob for reading in pieces; it stays readable even if it is removed in the meantime.
    /// - Throws: `StoreError.blobMissing`; `.tooManyOpenBlobs`, also later when nothing was read for a while.
    public func reader(_ digest: BlobDigest) throws(StoreError) -> BlobReader {
        try reader(digest, try openBlobs.take(at: environment.time.monotonicNanoseconds()))
    }

    /// For blobs that the agent reads for itself, regardless of what peers have open.
    func ownReader(_ digest: BlobDigest) throws(StoreError) -> BlobReader { try reader(digest, nil) }

    private func reader(_ digest: BlobDigest, _ place: OpenBlobs.Place?) throws(StoreError) -> BlobReader {
        do throws(StoreError) {
            return try BlobReader(path: path(digest), digest: digest, files, place, environment.time) { [weak self] in self?.note(digest, $0) }
        } catch {
            if case .blobMissing = error { noteMissed(digest) }
            throw error
        }
    }

    /// The blob was written again, or read successfully.
    func noteIntact(_ digest: BlobDigest) { note(digest, nil) }

    /// A reader of the blob found altered bytes.
    func noteAltered(_ digest: BlobDigest) { note(digest, .blobAltered(digest: digest.text, path: path(digest))) }

    /// A blob was looked up and not found. Whether a document needs it is determined later.
    func noteMissed(_ digest: BlobDigest) { problems.noteMissed(digest) }

    private func note(_ digest: BlobDigest, _ error: StoreError?) {
        // A disk may return other bytes without a change of the file: earlier results are void.
        if error != nil { checks.withLock { $0.forget(digest) } }
        problems.note(digest, error)
    }

    // MARK: writing

    /// Starts a blob whose bytes arrive in pieces.
    ///
    /// - Parameter length: its total size, if known. A blob that cannot fit is refused at once; space is checked and accounted for again as the bytes
    ///   arrive.
    /// - Throws: `StoreError.diskFull`, also if the database's options refuse it; `.tooManyOpenBlobs`, also later if nothing arrives for a while.
    public func writer(_ write: StoreWrite = .peers, length: UInt64? = nil) throws(StoreError) -> BlobWriter {
        try admit(write, length ?? 0)
        let place = try openBlobs.take(at: environment.time.monotonicNanoseconds())
        let name = Self.temporaryPrefix + Hex.encode(environment.random.bytes(8))
        return try BlobWriter(store: self, path: folder + "/" + name, place, write, StoreUsage.Incoming(usage))
    }

    /// Checks whether a blob of this size fits, without reserving space.
    private func admit(_ write: StoreWrite, _ length: UInt64) throws(StoreError) {
        guard length <= maxBytes else { throw .blobTooLarge(limit: maxBytes) }
        try checkRoom(write, Int(clamping: length))
    }

    func checkRoom(_ write: StoreWrite, _ bytes: Int) throws(StoreError) {
        if let reason = refusal(of: write, bytes: bytes) { throw .diskFull(path: folder, detail: reason) }
    }

    /// Stores a whole blob.
    /// - Throws: `StoreError.blobDigestMismatch`, `.blobTooLarge`, `.diskFull`.
    @discardableResult
    public func install(_ bytes: [UInt8], expecting: BlobDigest? = nil) throws(StoreError) -> BlobDigest {
        let writer = try writer(length: UInt64(bytes.count))
        try writer.append(bytes)
        return try writer.finish(expecting: expecting)
    }

    /// Stores a whole blob that arrived with a request.
    package func install(_ bytes: [UInt8], arrived: ArrivedBlobs) throws(StoreError) -> BlobDigest {
        let writer = try writer(length: UInt64(bytes.count))
        try writer.append(bytes)
        return try writer.finish(arrived: arrived)
    }

    /// Moves a complete and synced file to its final name. May also throw after the move, if a power failure could still undo it.
    func place(_ temporary: String, as digest: BlobDigest, _ arrived: ArrivedBlobs?) throws(FileError) {
        names.withLock { $0.underWay += 1 }
        do throws(FileError) {
            try tally.changing(digest, from: { size(digest) }) { () throws(FileError) in
                arrivals.comes(digest, arrived, wasHere: arrived != nil && size(digest) != nil)
                try files.rename(temporary, to: path(digest))
                return size(digest)
            }
        } catch {
            names.withLock { $0.underWay -= 1 }
            throw error
        }
        names.withLock {
            $0.underWay -= 1
            $0.changes += 1
        }
        try syncNames()
    }

    private func syncNames() throws(FileError) {
        let changes = names.withLock { $0.changes }
        try files.syncFolder(folder)
        names.withLock { $0.synced = max($0.synced, changes) }
    }

    /// Removes the file of a writer that was dropped: on a worker, since its owner may be an event loop.
    func discard(_ path: String) {
        perform({ _ = try? $0.files.remove(path) }, completion: { _ in })
    }

    // MARK: compaction

    /// Blobs older than the grace period, and the others with the time at which theirs ends.
    func byAge() throws(StoreError) -> (old: [BlobDigest], young: [(digest: BlobDigest, until: Int64)]) {
        expireUnfinished()
        let now = environment.time.wallSeconds()
        let names = try StoreError.ofFiles { () throws(FileError) in try files.names(in: folder) }
        var (old, young) = ([BlobDigest](), [(digest: BlobDigest, until: Int64)]())
        for name in names {
            guard name.utf8.count == 40, let bytes = Hex.decode(name), let digest = BlobDigest(bytes: bytes) else { continue }
            let age = age(digest, now)
            if age >= graceSeconds { old.append(digest) } else { young.append((digest, now - age + graceSeconds)) }
        }
        return (old, young)
    }

    private func age(_ digest: BlobDigest, _ now: Int64) -> Int64 {
        guard let facts = try? files.facts(path(digest)) else { return -1 }
        return now - facts.modified
    }

    /// Removes the blob unless it has been asked for since. Returns its size if it was removed.
    func removeIfStillOld(_ digest: BlobDigest) -> UInt64? {
        guard age(digest, environment.time.wallSeconds()) >= graceSeconds else { return nil }
        do throws(FileError) {
            let freed = try tally.changing(digest, from: { size(digest) }) { () throws(FileError) in
                try files.remove(path(digest))
                return 0
            }
            // It is no longer needed, whatever its bytes were.
            note(digest, nil)
            return freed
        } catch { return nil }
    }

    /// A request that brought the blob has ended, and nothing stored names it. Runs on the writer.
    func removeArrived(_ digest: BlobDigest, _ arrived: ArrivedBlobs) {
        // Files are created and removed under the same lock, so none appears between the last check and the removal.
        _ = try? tally.changing(digest, from: { size(digest) }) { () throws(FileError) in
            arrivals.end(digest, arrived) { _ = try? files.remove(path(digest)) }
            return size(digest)
        }
        // It is no longer needed, whatever its bytes were.
        if size(digest) == nil { note(digest, nil) }
    }
}
