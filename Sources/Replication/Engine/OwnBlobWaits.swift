import Documents

/// Documents that could not be pushed because one of their blobs is missing or damaged here, with all blobs that they name: when one of these is
/// repaired, the documents are offered at once. Documents beyond the limit are offered again on a timer.
struct OwnBlobWaits {
    private let limit: Int
    private var blobs: [DocumentID: [BlobDigest]] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func note(_ document: OutgoingDocument) {
        if blobs.count < limit || blobs[document.id] != nil { blobs[document.id] = document.blobs }
    }

    /// Takes the documents that name this blob. If another blob is damaged too, they are noted again.
    mutating func take(_ digest: BlobDigest) -> [DocumentID] {
        let ids = blobs.filter { $0.value.contains(digest) }.map(\.key).sorted()
        for id in ids { blobs[id] = nil }
        return ids
    }
}
