import Documents

/// Revisions that crossed the connection a moment ago, so that they are neither offered back nor fetched back. It may forget: then a
/// revision is offered once more, and the other side says that it has it.
struct EchoMemory {
    private struct Echo: Hashable {
        var id: DocumentID
        var version: Version
    }

    let limit: Int
    /// The last of each document, and those before it.
    private var last: [DocumentID: Version] = [:]
    private var earlier: Set<Echo> = []
    /// The peer met these as the reason of a refusal.
    private var met: Set<Echo> = []
    /// The last documents that the peer was told to let go, and some of those before them. That is enough: while its push of one is under way, a
    /// peer looks at few rows more.
    private var gone: Set<DocumentID> = []
    private var goneBefore: Set<DocumentID> = []

    init(limit: Int) { self.limit = limit }

    mutating func add(_ id: DocumentID, _ version: Version) {
        if gone.contains(id) || goneBefore.contains(id) { return }
        if last.count + earlier.count >= limit {
            last.removeAll(keepingCapacity: true)
            earlier.removeAll(keepingCapacity: true)
        }
        if let before = last.updateValue(version, forKey: id), before != version { earlier.insert(Echo(id: id, version: before)) }
    }

    /// Another revision of the document went the other way: the peer may have given up its own for it, and hears of that one again
    /// should it come back.
    mutating func answered(_ id: DocumentID) {
        if !last.isEmpty, let before = last.removeValue(forKey: id) { earlier.insert(Echo(id: id, version: before)) }
    }

    /// The peer is told that it has the document no more. What it sends of it from then on may have been on its way before it heard that, and goes with
    /// the rest there: it is no echo, until the document is offered.
    mutating func left(_ id: DocumentID) {
        answered(id)
        if gone.count >= max(1, limit / 2) { (goneBefore, gone) = (gone, []) }
        gone.insert(id)
    }

    /// The peer is offered the document.
    mutating func offered(_ id: DocumentID) {
        if gone.isEmpty, goneBefore.isEmpty { return }
        gone.remove(id)
        goneBefore.remove(id)
    }

    /// A peer that was refused a revision because of these may not hold them, even where it sent them itself: one that prunes
    /// its history forgets what it did not yet know to be here. They are no echoes any more.
    ///
    /// - Returns: the documents that the peer has not met in this way before.
    mutating func meet(_ revisions: [(DocumentID, Version)]) -> [DocumentID] {
        if met.count >= limit { met.removeAll(keepingCapacity: true) }
        return revisions.compactMap { met.insert(Echo(id: $0, version: $1)).inserted ? $0 : nil }
    }

    func holds(_ id: DocumentID, _ version: Version) -> Bool {
        if last.isEmpty, earlier.isEmpty { return false }
        let echo = Echo(id: id, version: version)
        return (last[id] == version || earlier.contains(echo)) && !met.contains(echo)
    }

    /// The document is what the peer gave us, and still has; that it went away never is. A branch beside others is offered back: the
    /// peer may have decided against it while its push was under way, and would never hear that it is the current revision here.
    func holds(_ document: OutgoingDocument) -> Bool {
        !last.isEmpty && document.news == .visible && !document.hasOtherBranches && last[document.id] == document.version && holds(document.id, document.version)
    }
}
