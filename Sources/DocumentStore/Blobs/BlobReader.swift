import Digests
import Documents
import Environment
import Synchronization

/// An open blob. If it is read in order from beginning to end, it is checked against the digest: the disk, or a person, may have altered the file.
/// Before it is sent to others, it should be verified (`BlobStore.check`).
///
/// Unchecked: `hasher` and `hashed` are accessed only while `lock` is held. (A hasher is not Sendable, so it cannot be stored in the Mutex.)
public final class BlobReader: BlobUser, @unchecked Sendable {
    /// Size in bytes.
    public let size: UInt64
    /// Nil once it gave way to another blob; also holds what the error then says.
    private let file: Mutex<(open: (any OpenFile)?, place: OpenBlobs.Place?, limit: Int)>
    private let time: any TimeSource
    private let path: String
    private let digest: BlobDigest
    /// Receives the result of reading the file: an error if it was altered, nil if it is intact.
    private let judged: @Sendable (StoreError?) -> Void
    private let lock = Mutex(())
    private let hasher = SHA1Hasher()
    /// Number of bytes hashed: everything before this offset.
    private var hashed: UInt64 = 0

    init(
        path: String, digest: BlobDigest, _ files: any FileSystem, _ place: OpenBlobs.Place?, _ time: any TimeSource,
        judged: @escaping @Sendable (StoreError?) -> Void
    ) throws(StoreError) {
        self.judged = judged
        self.path = path
        self.digest = digest
        self.time = time
        do throws(FileError) {
            let open = try files.open(path, .read)
            size = try open.size()
            file = Mutex((open, place, place?.limit ?? 0))
        } catch {
            if error.isMissing { throw .blobMissing(digest: digest.text) }
            throw StoreError(error)
        }
        place?.belongs(to: self)
    }

    func yieldResources() { file.withLock { ($0.open, $0.place) = (nil, nil) } }

    /// Up to `count` bytes from `offset`; fewer only at the end, none beyond it.
    /// - Throws: `StoreError.blobAltered` with the last bytes, if all were read in order and do not match the digest, and if the file has become
    ///   shorter; `.tooManyOpenBlobs` if nothing was read for a while and others needed the descriptor.
    public func read(offset: UInt64, count: Int) throws(StoreError) -> [UInt8] {
        guard offset < size, count > 0 else {
            if size == 0 { try check([], at: 0) }
            return []
        }
        let (open, limit) = file.withLock { file in
            file.place?.used(at: time.monotonicNanoseconds())
            return (file.open, file.limit)
        }
        guard let open else { throw .tooManyOpenBlobs(limit: limit) }
        let wanted = Int(min(UInt64(count), size - offset))
        var failure: FileError?
        let bytes = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, filled in
            do throws(FileError) {
                filled = try open.read(at: offset, into: UnsafeMutableRawBufferPointer(buffer))
            } catch {
                failure = error
            }
        }
        if let failure { throw StoreError(failure) }
        guard bytes.count == wanted else {
            judged(altered)
            throw altered
        }
        try check(bytes, at: offset)
        return bytes
    }

    private var altered: StoreError { .blobAltered(digest: digest.text, path: path) }

    private func check(_ bytes: [UInt8], at offset: UInt64) throws(StoreError) {
        let isRight: Bool? = lock.withLock { _ in
            if offset == 0, hashed > 0 {
                _ = hasher.finalize() // from the beginning again
                hashed = 0
            }
            guard offset == hashed else { return nil }
            hasher.update(bytes)
            hashed += UInt64(bytes.count)
            guard hashed == size else { return nil }
            hashed = 0
            return hasher.finalize() == digest.bytes
        }
        guard let isRight else { return }
        judged(isRight ? nil : altered)
        guard isRight else { throw altered }
    }
}
