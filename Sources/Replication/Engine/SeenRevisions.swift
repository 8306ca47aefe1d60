import Documents

/// Revisions of the peer's that were here although it offered or sent them, once each: what follows from one must not bring it again and again.
struct SeenRevisions {
    private struct Seen: Hashable {
        var id: DocumentID
        var version: Version
    }

    /// If there are more, all are forgotten.
    let limit: Int
    private var seen: Set<Seen> = []

    init(limit: Int) { self.limit = limit }

    /// Whether it was not seen before.
    mutating func insert(_ id: DocumentID, _ version: Version) -> Bool {
        if seen.count >= limit { seen.removeAll(keepingCapacity: true) }
        return seen.insert(Seen(id: id, version: version)).inserted
    }
}
