import Digests
import Documents
import Environment
import Synchronization

/// A blob being received: collected in a temporary file, and installed under its digest only when complete, verified and synced. If it is dropped
/// without `finish`, nothing remains. Methods block: call them inside `BlobStore.perform`, one at a time. It may be dropped anywhere.
///
/// Unchecked: `file`, `place`, `yieldError`, `hasher`, `count` and `incoming` are accessed only while `lock` is held. (A hasher is not Sendable, so it
/// cannot be stored in the Mutex.)
public final class BlobWriter: BlobUser, @unchecked Sendable {
    private let store: BlobStore
    private let path: String
    private let lock = Mutex(())
    /// Nil after the end.
    private var file: (any OpenFile)?
    private let hasher: SHA1Hasher
    private var place: OpenBlobs.Place?
    /// The error for later calls, once it gave way to another blob.
    private var yieldError: StoreError?
    private var count: UInt64 = 0
    private var noted: (any Sendable)?
    private let write: StoreWrite
    /// The space it takes, until it is installed or given up.
    private var incoming: StoreUsage.Incoming?

    init(store: BlobStore, path: String, _ place: OpenBlobs.Place, _ write: StoreWrite, _ incoming: StoreUsage.Incoming) throws(StoreError) {
        (self.write, self.incoming) = (write, incoming)
        self.store = store
        self.path = path
        self.place = place
        hasher = SHA1Hasher()
        file = try StoreError.ofFiles { () throws(FileError) in try store.files.open(path, .create) }
        place.belongs(to: self)
    }

    /// Continues after what another writer has written.
    init(store: BlobStore, resuming part: UnfinishedBlob, _ opened: UnfinishedBlob.Opened) {
        (write, incoming) = (.peers, part.incoming)
        self.store = store
        (path, hasher, count, noted) = (part.path, part.hasher, part.count, part.note)
        (file, place) = opened
        place?.belongs(to: self)
    }

    /// Number of bytes written.
    public var size: UInt64 { lock.withLock { _ in count } }

    /// What its user knows about the beginning, for a later continuation.
    package var note: (any Sendable)? {
        get { lock.withLock { _ in noted } }
        set { lock.withLock { _ in noted = newValue } }
    }

    /// Hands over what is written, if that is enough to be useful: afterwards nothing can be written here any more.
    func handOver(leastBytes: UInt64) -> UnfinishedBlob? {
        lock.withLock { _ in
            guard let file, let incoming, count >= leastBytes else { return nil }
            defer { (self.file, place, self.incoming) = (nil, nil, nil) }
            return UnfinishedBlob(path: path, (file, place), hasher: hasher, count: count, incoming, note: noted)
        }
    }

    deinit {
        if file != nil { store.discard(path) }
    }

    /// Writes bytes behind those that are there.
    ///
    /// - Throws: `StoreError.blobTooLarge`, `.diskFull`; the writer is unusable afterwards.
    public func append(_ bytes: [UInt8]) throws(StoreError) {
        try bytes.withUnsafeBytes { bytes -> Result<Void, StoreError> in
            Result { () throws(StoreError) in try append(bytes) }
        }.get()
    }

    /// - Throws: `StoreError.blobTooLarge`, `.diskFull`; the writer is unusable afterwards.
    public func append(_ bytes: UnsafeRawBufferPointer) throws(StoreError) {
        // Returned as an Optional instead of thrown, since Mutex does not rethrow typed errors.
        let failure: StoreError? = lock.withLock { _ in
            guard let file else { return yieldError ?? .closed(database: path) }
            place?.used(at: store.environment.time.monotonicNanoseconds())
            let limit = store.maxBytes
            guard UInt64(bytes.count) <= limit - min(count, limit) else { return .blobTooLarge(limit: limit) }
            // Even for announced bytes: others may have used their space.
            do throws(StoreError) { try store.checkRoom(write, bytes.count) } catch { return error }
            incoming?.came(bytes.count)
            defer { incoming?.wrote(bytes.count) }
            do throws(FileError) { try file.append(bytes) } catch { return StoreError(error) }
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
        try finish(expecting, length, nil)
    }

    /// The same for a request, at whose end the blob is removed if nothing names it.
    package func finish(expecting: BlobDigest? = nil, arrived: ArrivedBlobs) throws(StoreError) -> BlobDigest {
        try finish(expecting, nil, arrived)
    }

    private func finish(_ expecting: BlobDigest?, _ length: UInt64?, _ arrived: ArrivedBlobs?) throws(StoreError) -> BlobDigest {
        let result: Result<BlobDigest, StoreError> = lock.withLock { _ in
            Result { () throws(StoreError) in try install(expecting, length, arrived) }
        }
        cancel()
        return try result.get()
    }

    private func install(_ expecting: BlobDigest?, _ length: UInt64?, _ arrived: ArrivedBlobs?) throws(StoreError) -> BlobDigest {
        guard let file, let digest = BlobDigest(bytes: hasher.finalize()) else {
            throw yieldError ?? .closed(database: path)
        }
        if let expecting, expecting != digest {
            throw .blobDigestMismatch(expected: expecting.text, found: digest.text)
        }
        if let length, length != count {
            throw .blobLengthMismatch(digest: digest.text, expected: length, found: count)
        }
        try StoreError.ofFiles { () throws(FileError) in
            if !store.environment.hasPlanted(.blobBeforeItsBytes) { try file.sync() }
            try store.place(path, as: digest, arrived)
        }
        (self.file, place, incoming) = (nil, nil, nil)
        store.noteIntact(digest)
        return digest
    }

    /// Discards the bytes. Does nothing after `finish`.
    public func cancel() { end(nil) }

    func yieldResources() { end { .tooManyOpenBlobs(limit: $0) } }

    private func end(_ error: ((Int) -> StoreError)?) {
        lock.withLock { _ in
            guard file != nil else { return }
            yieldError = error?(place?.limit ?? 0)
            (file, place, incoming) = (nil, nil, nil)
            try? store.files.remove(path)
        }
    }
}
