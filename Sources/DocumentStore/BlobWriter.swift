import Digests
import Documents
import Glibc
import Synchronization

/// A blob on its way in: gathered in a temporary file, installed under its digest only when complete,
/// verified and synced. Dropped without `finish`, it leaves nothing. Methods block.
///
/// Unchecked: `descriptor`, `hasher` and `count` are touched only while `lock` is held. (A hasher is not
/// Sendable, so it cannot lie inside the Mutex.)
public final class BlobWriter: @unchecked Sendable {
    private let store: BlobStore
    private let path: String
    private let lock = Mutex(())
    private var descriptor: Int32
    private let hasher = SHA1Hasher()
    private var count: UInt64 = 0

    init(store: BlobStore, path: String) throws(StoreError) {
        self.store = store
        self.path = path
        descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Files.failure(path) }
    }

    deinit { cancel() }

    public func append(_ bytes: [UInt8]) throws(StoreError) {
        try bytes.withUnsafeBytes { bytes -> Result<Void, StoreError> in
            Result { () throws(StoreError) in try append(bytes) }
        }.get()
    }

    /// - Throws: `StoreError.blobTooLarge`, `.diskFull`; the writer is of no use afterwards.
    public func append(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        // Inside, an Optional instead of a throw: what Mutex rethrows is not typed.
        let failure: StoreError? = lock.withLock { _ in
            guard descriptor >= 0 else { return .closed(database: path) }
            guard UInt64(bytes.count) <= store.maxBytes - min(count, store.maxBytes) else {
                return .blobTooLarge(limit: store.maxBytes)
            }
            var offset = 0
            while offset < bytes.count {
                let written = Glibc.write(descriptor, bytes.baseAddress.map { $0 + offset }, bytes.count - offset)
                if written < 0 {
                    if errno == EINTR { continue }
                    return Files.failure(path)
                }
                offset += written
            }
            hasher.update(bytes)
            count += UInt64(bytes.count)
            return nil
        }
        if let failure {
            cancel()
            throw failure
        }
    }

    /// Syncs the bytes and installs them under their digest; durable when it returns.
    /// - Throws: `StoreError.blobDigestMismatch`, `.blobLengthMismatch` and errors of the disk; nothing is installed then.
    @discardableResult
    public func finish(expecting: BlobDigest? = nil, length: UInt64? = nil) throws(StoreError) -> BlobDigest {
        let result: Result<BlobDigest, StoreError> = lock.withLock { _ in
            Result { () throws(StoreError) in try install(expecting, length) }
        }
        cancel()
        return try result.get()
    }

    private func install(_ expecting: BlobDigest?, _ length: UInt64?) throws(StoreError) -> BlobDigest {
        guard descriptor >= 0, let digest = BlobDigest(bytes: hasher.finalize()) else {
            throw .closed(database: path)
        }
        if let expecting, expecting != digest {
            throw .blobDigestMismatch(expected: expecting.text, found: digest.text)
        }
        if let length, length != count {
            throw .blobLengthMismatch(digest: digest.text, expected: length, found: count)
        }
        guard fsync(descriptor) == 0 else { throw Files.failure(path) }
        guard rename(path, store.path(digest)) == 0 else { throw Files.failure(store.path(digest)) }
        try Files.syncFolder(store.folder)
        Glibc.close(descriptor)
        descriptor = -1
        return digest
    }

    /// Throws the bytes away. Does nothing after `finish`.
    public func cancel() {
        lock.withLock { _ in
            guard descriptor >= 0 else { return }
            Glibc.close(descriptor)
            descriptor = -1
            unlink(path)
        }
    }
}
