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

/// Documents of which the peer has gone back to a revision that is here and not current. The store may note that the peer has another one.
struct ReturnedDocuments {
    private var seen: SeenRevisions
    private var versions: [DocumentID: Version] = [:]

    init(limit: Int) { seen = SeenRevisions(limit: limit) }

    /// Whether the peer has not gone back to it before on this connection.
    mutating func insert(_ id: DocumentID, _ version: Version) -> Bool {
        guard seen.insert(id, version) else { return false }
        if versions.count >= seen.limit { versions.removeAll(keepingCapacity: true) }
        versions[id] = version
        return true
    }

    /// What the peer has, as far as is known from this.
    func version(of id: DocumentID) -> Version? { versions.isEmpty ? nil : versions[id] }

    /// The peer has another revision now.
    mutating func forget(_ id: DocumentID) { if !versions.isEmpty { versions[id] = nil } }
}
