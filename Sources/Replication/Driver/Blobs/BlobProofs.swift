import Digests
import Documents
import DocumentStore
import Synchronization

/// Proofs that were given on a connection.
struct BlobProofs {
    struct Question: Hashable {
        var digest: BlobDigest
        var nonce: [UInt8]
    }

    private let memory: Int
    private var known: [Question: BlobDigest] = [:]

    init(_ limits: ReplicationLimits) { memory = limits.knownProofs }

    func known(_ question: Question) -> BlobDigest? { known[question] }

    mutating func learn(_ question: Question, _ proof: BlobDigest) {
        if known.count >= memory { known = [:] }
        known[question] = proof
    }
}

/// An unfinished proof of possession of a blob: the digest over the nonce's length, the nonce and the blob.
///
/// Unchecked: `hasher` and `offset` are accessed only while `lock` is held. (A hasher is not Sendable, so it cannot be stored in the Mutex.)
final class PendingProof: @unchecked Sendable {
    private let reader: BlobReader
    private let digest: BlobDigest
    private let lock = Mutex(())
    private let hasher = SHA1Hasher()
    private var offset: UInt64 = 0

    var size: UInt64 { reader.size }

    init(_ digest: BlobDigest, nonce: [UInt8], _ store: BlobStore) throws(StoreError) {
        self.digest = digest
        reader = try store.reader(digest)
        hasher.update([UInt8(nonce.count)] + nonce)
    }

    /// Reads the next piece. Returns the proof after the last one.
    func advance(bytes count: Int) throws(StoreError) -> BlobDigest? {
        let result: Result<BlobDigest?, StoreError> = lock.withLock { _ in
            Result { () throws(StoreError) in
                let bytes = try reader.read(offset: offset, count: count)
                hasher.update(bytes)
                offset += UInt64(bytes.count)
                guard offset >= reader.size else { return nil }
                guard let proof = BlobDigest(bytes: hasher.finalize()) else { throw .blobMissing(digest: digest.text) }
                return proof
            }
        }
        return try result.get()
    }
}
