import Documents

/// Revisions that a peer that is bound to channels wants, while its access is looked at once more: between the reading of a feed
/// and the peer's wish for a row any time may pass, and a channel be lost. In order, many at a time.
struct LeavingRevisions {
    private var waiting: [OutgoingDocument] = []
    private var isLooking = false

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// What is to be looked at now; nil while that is done for others.
    mutating func next() -> [OutgoingDocument]? {
        guard !isLooking, !waiting.isEmpty else { return nil }
        defer { waiting = [] }
        isLooking = true
        return waiting
    }

    mutating func looked() { isLooking = false }
}
