import Documents

/// Documents that were created here on another tombstone than the one that the peer reads, and that it refused as edits of what was deleted: their
/// histories since then. Sent with that, the document was created on the peer's tombstone.
struct Recreations {
    /// If there are more, all are forgotten: then the peer refuses them once more.
    let limit: Int
    private var histories: [DocumentID: (version: Version, history: [Version])] = [:]

    init(limit: Int) { self.limit = limit }

    mutating func note(_ id: DocumentID, _ version: Version, since history: [Version]) {
        if histories.count >= limit { histories.removeAll(keepingCapacity: true) }
        histories[id] = (version, history)
    }

    /// The history with which to send the revision; nil for its whole history.
    func history(of id: DocumentID, _ version: Version) -> [Version]? {
        guard !histories.isEmpty, let found = histories[id], found.version == version else { return nil }
        return found.history
    }

    /// The peer has a revision of the document.
    mutating func forget(_ id: DocumentID) { if !histories.isEmpty { histories[id] = nil } }
}
