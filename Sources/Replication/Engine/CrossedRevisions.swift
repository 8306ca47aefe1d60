import Documents

/// Documents of which a revision of the peer's and one of ours crossed on the wire: the peer offered its own before it acknowledged ours. It has both, and
/// reads ours, even if the conflict was decided here for the other one. It has to be told that our branch is over: it would not hear of it otherwise, since
/// it takes the result, its own revision, for something that both sides have.
struct CrossedRevisions {
    private struct Pair {
        var theirs: Version
        var ours: Version
        var isAcknowledged = false
    }

    /// If there are more, all are forgotten: then the peer refuses its own revision as our current one, and ours is fetched and decided once more.
    let limit: Int
    private var pairs: [DocumentID: Pair] = [:]

    init(limit: Int) { self.limit = limit }

    /// - Parameter theirs: the latest revision that the peer offered before it acknowledged ours.
    mutating func note(_ id: DocumentID, _ theirs: Version, and ours: Version) {
        if pairs.count >= limit { pairs.removeAll(keepingCapacity: true) }
        let isAcknowledged = pairs[id].map { $0.ours == ours && $0.isAcknowledged } ?? false
        pairs[id] = Pair(theirs: theirs, ours: ours, isAcknowledged: isAcknowledged)
    }

    /// The peer has this revision.
    mutating func acknowledge(_ id: DocumentID, _ version: Version) {
        if !pairs.isEmpty, pairs[id]?.ours == version { pairs[id]?.isAcknowledged = true }
    }

    /// Our revision, if the peer has acknowledged it.
    func acknowledged(_ id: DocumentID) -> Version? {
        guard !pairs.isEmpty, let pair = pairs[id], pair.isAcknowledged else { return nil }
        return pair.ours
    }

    /// The peer has moved on from ours.
    mutating func forget(_ id: DocumentID) { if !pairs.isEmpty { pairs[id] = nil } }

    /// The end of our branch, for a peer that has it while its own revision is the current one here. Each is told once. Peers with version vectors can tell
    /// from the vectors.
    mutating func takeEnd(for document: OutgoingDocument) -> BranchEnd? {
        guard !pairs.isEmpty, let pair = pairs[document.id], pair.theirs == document.version, pair.ours == document.peerVersion else { return nil }
        pairs[document.id] = nil
        guard document.vector == nil, pair.ours.namesTreeRevision, document.followsLoser || !document.history.contains(pair.ours) else { return nil }
        return BranchEnd(version: pair.ours.endOfBranch, history: [pair.ours], isDecided: true)
    }
}
