import Documents

/// Documents that could not go to the peer because a blob of theirs is gone or damaged here, with the blobs that they name: when one of these is
/// right again they are offered at once. Those beyond the limit are offered again in their time.
struct OwnBlobWaits {
    private let limit: Int
    private var blobs: [DocumentID: [BlobDigest]] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func note(_ document: OutgoingDocument) {
        if blobs.count < limit || blobs[document.id] != nil { blobs[document.id] = document.blobs }
    }

    /// Those that name this blob. Where another one is wrong too, they are noted anew.
    mutating func take(_ digest: BlobDigest) -> [DocumentID] {
        let ids = blobs.filter { $0.value.contains(digest) }.map(\.key).sorted()
        for id in ids { blobs[id] = nil }
        return ids
    }
}
