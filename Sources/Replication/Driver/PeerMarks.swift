import Documents

/// Whether what the store has noted of a peer's documents is believed. A peer whose checkpoint is behind ours, or gone, may have lost data, or be
/// another database: it had what is noted only where that was noted on this connection. Else a revision of such a peer would be taken for a
/// decision against ours, which it never saw.
struct PeerMarks {
    /// The peer's checkpoint says the same as ours, or nothing was noted before.
    var areBelieved = true
    /// Noted on this connection. It may forget: then a conflict is decided here that the peer has decided already.
    private var noted: Set<DocumentID> = []
    private let limit: Int

    init(limit: Int) { self.limit = limit }

    mutating func note(_ ids: some Sequence<DocumentID>) {
        if areBelieved { return }
        if noted.count >= limit { noted.removeAll(keepingCapacity: true) }
        noted.formUnion(ids)
    }

    func isBelieved(_ id: DocumentID) -> Bool { areBelieved || noted.contains(id) }
}
