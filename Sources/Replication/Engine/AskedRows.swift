import DocumentStore
import Documents

/// Rows of the peer's changes whose revision was asked for, and what of each document is on its way from the question until it is stored or
/// given up: what is offered next was offered after it.
struct AskedRows {
    /// Versions of one document: mostly one, which needs no list.
    private struct UnderWay {
        var first: Version
        var later: [Version] = []
    }

    /// Earlier offers that a row names where what the peer had is not known.
    private static let namedOffers = 32

    private var rows: [RemoteSequence: AskedRow] = [:]
    private var underWay: [DocumentID: UnderWay] = [:]

    var isEmpty: Bool { rows.isEmpty }
    var count: Int { rows.count }

    func contains(_ id: DocumentID) -> Bool { rows.values.contains { $0.id == id } }

    /// Of which document the peer was asked for a revision under this sequence.
    func document(at sequence: RemoteSequence?) -> DocumentID? { sequence.flatMap { rows[$0]?.id } }

    mutating func ask(_ sequence: RemoteSequence, _ id: DocumentID, _ revision: Version, peerHad: PeerRevision) {
        var earlier = begin(id, revision)
        // Of a peer that has several revisions of a document nobody asks this; each of a thousand would name all others.
        if peerHad == .unknown, earlier.count > Self.namedOffers { earlier = [] }
        rows[sequence] = AskedRow(id: id, revision: revision, peerHad: peerHad, offeredBefore: earlier)
    }

    /// The revision is here; it goes on its way into the store. Nil for one that the peer was not asked for, or of another document than the
    /// one at this sequence.
    mutating func arrived(_ revision: ReceivedRevision) -> AskedRow? {
        guard let sequence = revision.sequence, let index = rows.index(forKey: sequence), rows.values[index].id == revision.id else { return nil }
        return rows.remove(at: index).value
    }

    /// The revision does not come, or is not taken.
    mutating func giveUp(_ sequence: RemoteSequence?) -> AskedRow? {
        let row = sequence.flatMap { rows.removeValue(forKey: $0) }
        if let row { end(row.id, row.revision) }
        return row
    }

    /// From the list of what was kept back: what is asked for already was offered later.
    mutating func takenUpAgain(_ revision: CheckedRevision) {
        if begin(revision.id, revision.revision).isEmpty { return }
        for (sequence, row) in rows where row.id == revision.id { rows[sequence]?.offeredBefore.append(revision.revision) }
    }

    /// It is stored, or it will not be.
    mutating func end(_ id: DocumentID, _ version: Version) {
        guard var versions = underWay.removeValue(forKey: id), !versions.later.isEmpty else { return }
        // One may be under way twice: taken up again from the list of what was kept back, and offered anew. What came may be newer than
        // what was offered; then it is the earliest that ends.
        if let index = versions.later.firstIndex(of: version), versions.first != version {
            versions.later.remove(at: index)
        } else {
            versions.first = versions.later.removeFirst()
        }
        underWay[id] = versions
    }

    /// - Returns: those that began before it.
    private mutating func begin(_ id: DocumentID, _ version: Version) -> [Version] {
        guard var versions = underWay.updateValue(UnderWay(first: version), forKey: id) else { return [] }
        let earlier = [versions.first] + versions.later
        versions.later.append(version)
        underWay[id] = versions
        return earlier
    }
}
