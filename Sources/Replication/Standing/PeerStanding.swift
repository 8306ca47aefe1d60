import Documents
import DocumentStore
import Interfaces

/// Where one document stands for a peer that is connected to a listener.
public enum PeerStanding: Sendable {
    /// The peer has not asked for the collection.
    case otherCollection
    /// It has not asked for documents: it only pushes.
    case doesNotPull
    /// It asked for other documents.
    case notChosen
    case nothingHere
    /// The sync function did not put its current revision into channels; with its failure, where it has failed.
    case unrouted(DocumentRoute?)
    case notInChannels(document: [String], peer: [String])
    case rejected(plugin: String)
    case held(PolicyFailure)
    /// The peer wants no deletions of the time before its first visit.
    case deletionSkipped
    /// It was offered or sent, and the peer has not answered.
    case underWay
    /// The peer has acknowledged it on this connection, or gave it.
    case taken
    /// The peer took it, and has it on a list and not in its database.
    case kept(KeptThere)
    /// The peer began behind it: it dealt with it on an earlier connection.
    case before
    /// The peer was told of it and did not ask for it: it has it, does not want it, or has no room for it now.
    case declined
    /// The peer was sent it and could not take it.
    case refused(ReplicationError)
    /// The peer was told of it on this connection; what it said of it is not remembered.
    case told
    /// The peer's feed has not come to it.
    case pending(at: SequenceNumber)
    /// The peer has asked once, and that was answered before the document came.
    case askedBefore
}

extension ReplicationSession {
    /// Where a document stands for the peer, on the listening side.
    ///
    /// - Throws: ``StoreError``.
    public func standing(of id: DocumentID, in name: CollectionName) async throws -> PeerStanding {
        guard let link = driver.links.first(where: { $0.collection.name == name }) else { return .otherCollection }
        guard link.push != nil else { return .doesNotPull }
        if let wanted = link.source.documentIDs, !wanted.contains(id) { return .notChosen }
        let (collection, peer, chosen) = (link.collection, driver.channelPeer, link.source.channels?.channels)
        let found = try await driver.database.read { transaction -> (ChangeRow, PeerStanding?)? in
            guard let row = try transaction.row(collection, id, withBody: true) else { return nil }
            guard let peer else { return (row, nil) }
            let access = try transaction.channelAccess(collection, of: peer)
            if try transaction.isVisible(collection, id, row.revision, to: access) {
                guard let chosen, !chosen.contains("*"), let assigned = try transaction.assignedChannels(collection, id),
                    assigned.isDisjoint(with: chosen)
                else { return (row, nil) }
                return (row, .notInChannels(document: assigned.sorted(), peer: chosen.sorted()))
            }
            let failed = try transaction.unassigned(collection, id)
            guard failed == nil, let assigned = try transaction.assignedChannels(collection, id) else { return (row, .unrouted(failed)) }
            return (row, .notInChannels(document: assigned.sorted(), peer: access.channels.filter { $0 != "!" }))
        }
        guard let (row, obstacle) = found else { return .nothingHere }
        if let obstacle { return obstacle }
        if let filter = link.pushFilter {
            let document = PolicyDocument(id: id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
            switch await filter.verdicts([document], driver.policyContext(name, .push)).first {
            case .reject: return .rejected(plugin: filter.pluginName)
            case .failed(let failure): return .held(failure)
            case .pass, .replace, nil: break
            }
        }
        // The peer may have gone meanwhile.
        guard let push = link.push else { return .doesNotPull }
        if push.ledger.phase(of: id) != nil { return .underWay }
        let position = push.feed.position.sequence
        if position < row.sequence { return push.isOver ? .askedBefore : .pending(at: position) }
        if row.isDeleted, link.source.activeOnly { return .deletionSkipped }
        return switch push.untaken.fate(of: id, at: row.sequence) {
        case .taken: .taken
        case .before: .before
        case .untaken(.kept(let kept)): .kept(kept)
        case .untaken(.declined): .declined
        case .untaken(.refused(let error)): .refused(error)
        case .unknown: .told
        }
    }
}
