import Documents

/// Revisions that recently crossed the connection, so that they are neither offered back nor fetched back. It may forget some: then a revision is
/// offered once more, and the other side answers that it has it.
struct EchoMemory {
    private struct Echo: Hashable {
        var id: DocumentID
        var version: Version
    }

    let limit: Int
    /// The last revision of each document, and earlier ones.
    private var last: [DocumentID: Version] = [:]
    private var earlier: Set<Echo> = []
    /// Revisions that the peer was given as the reason of a refusal.
    private var met: Set<Echo> = []
    /// Recent documents that the peer was told to remove, and some earlier ones. That is enough: while a push of one is in flight, a peer processes
    /// only a few more rows.
    private var gone: Set<DocumentID> = []
    private var previouslyGone: Set<DocumentID> = []

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID, _ version: Version) {
        if gone.contains(id) || previouslyGone.contains(id) { return }
        if last.count + earlier.count >= limit {
            last.removeAll(keepingCapacity: true)
            earlier.removeAll(keepingCapacity: true)
        }
        if let before = last.updateValue(version, forKey: id), before != version { earlier.insert(Echo(id: id, version: before)) }
    }

    /// Another revision of the document went in the other direction: the peer may have dropped its own for it, and must be offered that one again
    /// should it become current again.
    mutating func answered(_ id: DocumentID) {
        if !last.isEmpty, let before = last.removeValue(forKey: id) { earlier.insert(Echo(id: id, version: before)) }
    }

    /// The peer is told that it no longer has the document. Revisions of it that the peer sends afterwards may have been in flight before it learned
    /// that, and are removed there with the rest: they do not count as echoes until the document is offered again.
    mutating func left(_ id: DocumentID) {
        answered(id)
        if gone.count >= max(1, limit / 2) { (previouslyGone, gone) = (gone, []) }
        gone.insert(id)
    }

    /// The peer is offered the document.
    mutating func offered(_ id: DocumentID) {
        if gone.isEmpty, previouslyGone.isEmpty { return }
        gone.remove(id)
        previouslyGone.remove(id)
    }

    /// A peer whose revision was refused because of these may not hold them, even if it sent them itself: a peer that prunes its history forgets
    /// revisions that it does not yet know to be here. They no longer count as echoes.
    mutating func meet(_ revisions: [(DocumentID, Version)]) {
        if met.count >= limit { met.removeAll(keepingCapacity: true) }
        for (id, version) in revisions { met.insert(Echo(id: id, version: version)) }
    }

    func holds(_ id: DocumentID, _ version: Version) -> Bool {
        if last.isEmpty, earlier.isEmpty { return false }
        let echo = Echo(id: id, version: version)
        return (last[id] == version || earlier.contains(echo)) && !met.contains(echo)
    }

    /// Whether the document is what the peer sent us and still has; never true for a removal. A branch of a conflict is offered back: the peer may
    /// have decided against it while its push was in flight, and would never learn that it is the current revision here.
    func holds(_ document: OutgoingDocument) -> Bool {
        !last.isEmpty && document.visibility == .visible && !document.hasOtherBranches && last[document.id] == document.version && holds(document.id, document.version)
    }
}
