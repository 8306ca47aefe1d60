import Documents

/// Documents of which the peer has gone back to a revision that is here and not current. The store may note that the peer has another one.
struct ReturnedDocuments {
    private var seen: SeenRevisions
    /// Of those that the peer has not been brought to the current revision of; if there are very many, all are forgotten, and are left as they are.
    private var versions: [DocumentID: Version] = [:]
    private let limit: Int

    /// - Parameter times: how often it may go back to the same revision on a connection. In a ring it may do so while its other neighbours decide.
    init(limit: Int, times: Int) { (seen, self.limit) = (SeenRevisions(limit: limit, times: times), limit / 10) }

    /// Whether the peer has not gone back to it too often.
    mutating func insert(_ id: DocumentID, _ version: Version) -> Bool {
        guard seen.insert(id, version) else { return false }
        if versions.count >= limit { versions.removeAll(keepingCapacity: true) }
        versions[id] = version
        return true
    }

    /// What the peer has, as far as is known from this.
    func version(of id: DocumentID) -> Version? { versions.isEmpty ? nil : versions[id] }

    /// The peer has another revision now.
    mutating func forget(_ id: DocumentID) { if !versions.isEmpty { versions[id] = nil } }
}
