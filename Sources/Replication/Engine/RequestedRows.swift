import DocumentStore
import Documents

/// Rows of the peer's changes whose revision was requested, and the versions of each document under way, from the request until they are stored or
/// given up: a version offered in the meantime was offered after these.
struct RequestedRows {
    /// Versions of one document under way: usually one, which needs no list.
    private struct UnderWay {
        var first: Version
        var later: [Version] = []
    }

    private var rows: [RemoteSequence: RequestedRow] = [:]
    private var underWay: [DocumentID: UnderWay] = [:]

    var isEmpty: Bool { rows.isEmpty }
    var count: Int { rows.count }

    func contains(_ id: DocumentID) -> Bool { rows.values.contains { $0.id == id } }

    /// The document of which a revision was requested under this sequence.
    func document(at sequence: RemoteSequence?) -> DocumentID? { sequence.flatMap { rows[$0]?.id } }

    mutating func ask(_ sequence: RemoteSequence, _ id: DocumentID, _ revision: Version, peerHad: PeerRevision) {
        var earlier = begin(id, revision)
        // Each of a thousand would list all others. Not needed for a peer with several revisions of a document; what others had is among the last.
        if earlier.count > EngineBounds.namedOffers { earlier = peerHad == .unknown ? [] : earlier.suffix(EngineBounds.namedOffers) }
        rows[sequence] = RequestedRow(id: id, revision: revision, peerHad: peerHad, offeredBefore: earlier)
    }

    /// The revision has arrived and continues on its way into the store. Nil if it was not requested, or belongs to another document than the one at
    /// this sequence.
    mutating func arrived(_ revision: ReceivedRevision) -> RequestedRow? {
        guard let sequence = revision.sequence, let index = rows.index(forKey: sequence), rows.values[index].id == revision.id else { return nil }
        return rows.remove(at: index).value
    }

    /// The revision will not come, or is not accepted.
    mutating func giveUp(_ sequence: RemoteSequence?) -> RequestedRow? {
        let row = sequence.flatMap { rows.removeValue(forKey: $0) }
        if let row { end(row.id, row.revision) }
        return row
    }

    /// A revision from the kept-back list: revisions already requested were offered later.
    mutating func retriedFromKeptBack(_ revision: CheckedRevision) {
        if begin(revision.id, revision.revision).isEmpty { return }
        for (sequence, row) in rows where row.id == revision.id { rows[sequence]?.offeredBefore.append(revision.revision) }
    }

    /// The version is stored, or will not be.
    mutating func end(_ id: DocumentID, _ version: Version) {
        guard var versions = underWay.removeValue(forKey: id), !versions.later.isEmpty else { return }
        // A version may be under way twice: retried from the kept-back list, and offered again. If a newer revision came than was offered, the
        // earliest one ends.
        if let index = versions.later.firstIndex(of: version), versions.first != version {
            versions.later.remove(at: index)
        } else {
            versions.first = versions.later.removeFirst()
        }
        underWay[id] = versions
    }

    /// - Returns: the versions that began before it.
    private mutating func begin(_ id: DocumentID, _ version: Version) -> [Version] {
        guard var versions = underWay.updateValue(UnderWay(first: version), forKey: id) else { return [] }
        let earlier = [versions.first] + versions.later
        versions.later.append(version)
        underWay[id] = versions
        return earlier
    }
}
