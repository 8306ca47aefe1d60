import Digests
import Documents
import Encodings
import Glibc
import Synchronization

/// Blobs as files named by their digest. Methods without `async` block: call them inside `perform`.
public final class BlobStore: Sendable {
    let folder: String
    let maxBytes: UInt64
    private let graceSeconds: Int64
    private let queue = JobQueue<@Sendable () -> Void>()
    private let threads = Mutex<[Thread]>([])
    private let counter = Atomic<UInt64>(0)

    /// Threads for blob files: two, so that one slow sync does not stop all reading.
    private static let threadCount = 2
    private static let temporaryPrefix = "incoming-"

    init(folder: String, options: DatabaseOptions) throws(StoreError) {
        self.folder = folder
        maxBytes = options.maxBlobBytes
        graceSeconds = options.blobGraceSeconds
        try Files.makeFolder(folder)
        // What an earlier process left unfinished.
        for name in try Files.names(in: folder) where name.hasPrefix(Self.temporaryPrefix) {
            unlink(folder + "/" + name)
        }
    }

    /// Runs blocking file work on the blob threads.
    public func perform<T: Sendable>(_ body: @escaping @Sendable (BlobStore) throws -> T) async throws -> T {
        try startThreads()
        return try await withCheckedThrowingContinuation { continuation in
            let accepted = queue.push { continuation.resume(with: Result { try body(self) }) }
            if !accepted { continuation.resume(throwing: StoreError.closed(database: folder)) }
        }
    }

    private func startThreads() throws(StoreError) {
        do {
            try threads.withLock { threads in
                while threads.count < Self.threadCount {
                    threads.append(try Thread(name: "blobs") { [queue] in
                        while let job = queue.take(upTo: 1).first { job() }
                    })
                }
            }
        } catch let error as StoreError {
            throw error
        } catch {
            throw .database(code: 0, message: "\(error)", sql: "")
        }
    }

    func close() {
        queue.close()
        let running = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in running { thread.join() }
    }

    // MARK: reading

    func path(_ digest: BlobDigest) -> String { folder + "/" + digest.hex }

    /// Whether the blob is stored. Asking renews its grace time: who asks is about to refer to it.
    public func contains(_ digest: BlobDigest) -> Bool {
        let path = path(digest)
        var info = stat()
        guard stat(path, &info) == 0 else { return false }
        if Int64(time(nil)) - Int64(info.st_mtim.tv_sec) > graceSeconds / 2 { utimensat(AT_FDCWD, path, nil, 0) }
        return true
    }

    /// Size in bytes; `nil` if the blob is not stored.
    public func size(_ digest: BlobDigest) -> UInt64? { Files.size(path(digest)).map { UInt64($0) } }

    /// The whole blob.
    /// - Throws: `StoreError.blobMissing`; `.blobTooLarge` if it has more than `limit` bytes.
    public func read(_ digest: BlobDigest, limit: Int = 20 << 20) throws(StoreError) -> [UInt8] {
        let reader = try reader(digest)
        guard reader.size <= UInt64(max(limit, 0)) else { throw .blobTooLarge(limit: UInt64(max(limit, 0))) }
        return try reader.read(offset: 0, count: Int(reader.size))
    }

    /// Opens the blob for reading in pieces; it stays readable even if it is removed meanwhile.
    /// - Throws: `StoreError.blobMissing`.
    public func reader(_ digest: BlobDigest) throws(StoreError) -> BlobReader {
        try BlobReader(path: path(digest), digest: digest)
    }

    // MARK: writing

    /// Begins a blob whose bytes come in pieces.
    public func writer() throws(StoreError) -> BlobWriter {
        let number = counter.wrappingAdd(1, ordering: .relaxed).newValue
        return try BlobWriter(store: self, path: folder + "/\(Self.temporaryPrefix)\(getpid())-\(number)")
    }

    /// Stores a whole blob.
    /// - Throws: `StoreError.blobDigestMismatch`, `.blobTooLarge`, `.diskFull`.
    @discardableResult
    public func install(_ bytes: [UInt8], expecting: BlobDigest? = nil) throws(StoreError) -> BlobDigest {
        let writer = try writer()
        try writer.append(bytes)
        return try writer.finish(expecting: expecting)
    }

    // MARK: compaction

    /// Blobs older than the grace time.
    func old() throws(StoreError) -> [BlobDigest] {
        let now = Int64(time(nil))
        var found: [BlobDigest] = []
        for name in try Files.names(in: folder) {
            guard name.utf8.count == 40, let bytes = Hex.decode(name), let digest = BlobDigest(bytes: bytes) else { continue }
            if age(digest, now) >= graceSeconds { found.append(digest) }
        }
        return found
    }

    private func age(_ digest: BlobDigest, _ now: Int64) -> Int64 {
        var info = stat()
        guard stat(path(digest), &info) == 0 else { return -1 }
        return now - Int64(info.st_mtim.tv_sec)
    }

    /// Removes the blob unless somebody has asked for it since. Returns its size if it went.
    func removeIfStillOld(_ digest: BlobDigest) -> UInt64? {
        let bytes = size(digest)
        guard age(digest, Int64(time(nil))) >= graceSeconds, unlink(path(digest)) == 0 else { return nil }
        return bytes
    }
}

/// An open blob.
public final class BlobReader: Sendable {
    /// Size in bytes.
    public let size: UInt64
    private let descriptor: Int32
    private let path: String

    init(path: String, digest: BlobDigest) throws(StoreError) {
        self.path = path
        descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            if errno == ENOENT { throw .blobMissing(digest: digest.text) }
            throw Files.failure(path)
        }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else {
            let failure = Files.failure(path)
            Glibc.close(descriptor)
            throw failure
        }
        size = UInt64(info.st_size)
    }

    deinit { Glibc.close(descriptor) }

    /// Up to `count` bytes from `offset`; fewer only at the end, none beyond it.
    public func read(offset: UInt64, count: Int) throws(StoreError) -> [UInt8] {
        guard offset < size, count > 0 else { return [] }
        let wanted = Int(min(UInt64(count), size - offset))
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, filled in
            while filled < wanted {
                let got = pread(
                    descriptor, buffer.baseAddress.map { $0 + filled }, wanted - filled, off_t(offset) + off_t(filled))
                if got < 0 && errno == EINTR { continue }
                if got <= 0 {
                    failed = got < 0
                    return
                }
                filled += got
            }
        }
        if failed { throw Files.failure(path) }
        return bytes
    }
}
