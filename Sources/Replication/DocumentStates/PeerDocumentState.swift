import Documents
import DocumentStore
import Interfaces

/// The state of one document for a peer that is connected to a listener.
public enum PeerDocumentState: Sendable {
    /// The peer has not requested the collection.
    case otherCollection
    /// The peer has not requested documents: it only pushes.
    case doesNotPull
    /// The peer requested other documents.
    case notChosen
    case noLocalDocument
    /// The sync function did not assign its current revision to channels; with its failure, if it failed.
    case unrouted(DocumentRoute?)
    case notInChannels(document: [String], peer: [String])
    case rejected(plugin: String)
    case held(PolicyFailure)
    /// The peer does not want deletions from before its first connection.
    case deletionSkipped
    /// It was offered or sent, and the peer has not answered.
    case underWay
    /// The peer has acknowledged it on this connection, or sent it.
    case taken
    /// The peer accepted it, and has it on a list instead of in its database.
    case kept(KeptByPeer)
    /// The peer started after it: it dealt with it on an earlier connection.
    case before
    /// It was announced to the peer, which did not request it: the peer has it, does not want it, or has no space for it.
    case declined
    /// The peer was sent it and could not accept it.
    case refused(ReplicationError)
    /// It was announced to the peer on this connection; the peer's answer is not remembered.
    case told
    /// The peer's feed has not reached it.
    case pending(at: SequenceNumber)
    /// The peer made a one-shot request, which was answered before the document arrived.
    case askedBefore
}

extension ReplicationSession {
    /// The state of a document for the peer, on the listening side.
    ///
    /// - Throws: ``StoreError``.
    public func standing(of id: DocumentID, in name: CollectionName) async throws -> PeerDocumentState {
        guard let link = driver.links.first(where: { $0.collection.name == name }) else { return .otherCollection }
        guard link.push != nil else { return .doesNotPull }
        if let wanted = link.source.documentIDs, !wanted.contains(id) { return .notChosen }
        let (collection, peer, chosen) = (link.collection, driver.channelPeer, link.source.channels?.channels)
        let found = try await driver.database.read { transaction -> (ChangeRow, PeerDocumentState?)? in
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
        guard let (row, obstacle) = found else { return .noLocalDocument }
        if let obstacle { return obstacle }
        if let filter = link.pushFilter {
            let document = PolicyDocument(id: id, revision: row.revision, isDeleted: row.isDeleted, body: row.body ?? [])
            switch await filter.verdicts([document], driver.policyContext(name, .push)).first {
            case .reject: return .rejected(plugin: filter.pluginName)
            case .failed(let failure): return .held(failure)
            case .pass, .replace, nil: break
            }
        }
        // The peer's subscription may have ended in the meantime.
        guard let push = link.push else { return .doesNotPull }
        if push.ledger.phase(of: id) != nil { return .underWay }
        let position = push.feed.position.sequence
        if position < row.sequence { return push.isOver ? .askedBefore : .pending(at: position) }
        if row.isDeleted, row.sequence <= link.source.activeOnlyThrough ?? .max { return .deletionSkipped }
        return switch push.declinedDocuments.fate(of: id, at: row.sequence) {
        case .taken: .taken
        case .before: .before
        case .notTaken(.kept(let kept)): .kept(kept)
        case .notTaken(.declined): .declined
        case .notTaken(.refused(let error)): .refused(error)
        case .unknown: .told
        }
    }
}
