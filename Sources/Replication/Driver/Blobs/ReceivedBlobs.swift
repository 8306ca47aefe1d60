import Documents
import DocumentStore

/// Blobs that arrived on a connection, for as long as revisions that name them are on their way into the store. When the last of these is refused,
/// the blob is deleted, unless something stored names it or other connections use it.
struct ReceivedBlobs {
    let arrived = ArrivedBlobs()
    private var named: [BlobWaiter: [BlobDigest]] = [:]
    /// What each revision says about its blobs, if their lengths are compared. Shared with the revision, so that it takes no extra memory.
    private var references: [BlobWaiter: [BlobReference]] = [:]
    /// How many revisions on their way name each blob.
    private var revisions: [BlobDigest: Int] = [:]
    private var count = 0

    var bytes: Int { count * HeldBytes.named }

    func isNamed(_ digest: BlobDigest) -> Bool { revisions[digest] != nil }

    /// The blobs of a revision are about to be looked up.
    mutating func name(_ blobs: [BlobReference], _ waiter: BlobWaiter, comparesLengths: Bool) {
        let digests = Array(Set(blobs.map(\.digest)))
        guard named.updateValue(digests, forKey: waiter) == nil else { return }
        if comparesLengths { references[waiter] = blobs }
        count += digests.count
        for digest in digests { revisions[digest, default: 0] += 1 }
    }

    /// The blobs of a revision that says how large they are.
    func withSizes(_ waiter: BlobWaiter) -> [BlobReference] { references[waiter]?.filter { $0.claimedSize != nil } ?? [] }

    /// Revisions are finished.
    ///
    /// - Returns: blobs that arrived on this connection for them and that no other revision on its way names; nil if there are none.
    mutating func end(_ waiters: [BlobWaiter]) -> ArrivedBlobs? {
        var over: [BlobDigest] = []
        for waiter in waiters {
            guard let digests = named.removeValue(forKey: waiter) else { continue }
            references[waiter] = nil
            count -= digests.count
            for digest in digests {
                guard let others = revisions[digest].map({ $0 - 1 }), others > 0 else {
                    revisions[digest] = nil
                    over.append(digest)
                    continue
                }
                revisions[digest] = others
            }
        }
        return over.isEmpty ? nil : arrived.take(over)
    }
}
