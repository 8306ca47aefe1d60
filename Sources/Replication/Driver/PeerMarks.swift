import Documents

/// Whether the store's notes on a peer's documents are trusted. A peer whose checkpoint is older than ours, or missing, may have lost data or be
/// another database: then only what was noted on this connection is trusted. Otherwise a revision from such a peer would be taken for a decision
/// against ours, which it never saw.
struct PeerMarks {
    /// The peer's checkpoint agrees with ours, or nothing was noted before.
    var areCredible = true
    /// Documents noted on this connection. May be incomplete: then a conflict that the peer has already decided is decided here as well.
    private var noted: Set<DocumentID> = []
    /// Documents of which a revision was stored on this connection that the peer had sent earlier and may have lost since.
    private var doubted: Set<DocumentID> = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    mutating func note(_ ids: some Sequence<DocumentID>) {
        if !doubted.isEmpty { doubted.subtract(ids) }
        if areCredible { return }
        if noted.count >= limit { noted.removeAll(keepingCapacity: true) }
        noted.formUnion(ids)
    }

    mutating func doubt(_ ids: some Sequence<DocumentID>) {
        guard areCredible else { return noted.subtract(ids) }
        doubted.formUnion(ids)
        // Too many to remember: nothing is trusted any more.
        if doubted.count > limit { (areCredible, doubted) = (false, []) }
    }

    func isCredible(_ id: DocumentID) -> Bool { areCredible ? !doubted.contains(id) : noted.contains(id) }
}
