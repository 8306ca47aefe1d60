import Documents
import DocumentStore

/// What a connection has brought of blobs, for as long as revisions that name them are on their way into the store. A blob goes with the last of
/// them if that is refused, unless something stored names it or others have to do with it.
struct BroughtBlobs {
    let arrived = ArrivedBlobs()
    private var named: [BlobWaiter: [BlobDigest]] = [:]
    /// How many revisions on their way name a blob.
    private var revisions: [BlobDigest: Int] = [:]
    private var count = 0

    var bytes: Int { count * HeldBytes.named }

    func isNamed(_ digest: BlobDigest) -> Bool { revisions[digest] != nil }

    /// A revision is about to have its blobs looked for.
    mutating func name(_ blobs: [BlobReference], _ waiter: BlobWaiter) {
        let digests = Array(Set(blobs.map(\.digest)))
        guard named.updateValue(digests, forKey: waiter) == nil else { return }
        count += digests.count
        for digest in digests { revisions[digest, default: 0] += 1 }
    }

    /// Revisions are through.
    ///
    /// - Returns: what this connection has brought for them, and no other revision on its way names; nil: nothing.
    mutating func end(_ waiters: [BlobWaiter]) -> ArrivedBlobs? {
        var over: [BlobDigest] = []
        for waiter in waiters {
            guard let digests = named.removeValue(forKey: waiter) else { continue }
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
