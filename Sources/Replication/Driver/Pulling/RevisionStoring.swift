import Documents
import DocumentStore
import Encodings
import Interfaces

/// Writes a batch of revisions within the store's transaction, with one outcome for each. A bad document does not fail the batch; a store that cannot
/// write does.
struct RevisionStoring: Sendable {
    let collection: Collection
    /// The peer that they came from, if the store keeps notes on it.
    var remote: RemoteID?
    var conflicts: ConflictHandling
    /// Stored revisions are taken off the kept-back list.
    var settlesHeld: Bool
    /// Every leaf is kept, as CouchDB does: a tombstone ends its own branch.
    var keepsLeaves = false
    /// The peer keeps one revision of each document.
    var peerHasOne = true
    /// How the peer names revisions.
    var naming = RevisionNaming.trees
    /// Set for a peer that may not see everything.
    var sender: SenderView?
    /// Documents whose deletion is in flight to the peer while it sends these.
    var deletionsUnderWay: Set<DocumentID> = []
    /// A revision for which there is no space fails on its own, and the others of the batch are stored, such as deletions.
    var takesWhatFits = false
    /// The sender, as text.
    var peer: String?

    /// - Returns: one outcome for each revision. It holds only once the transaction is committed, which is up to the caller.
    func store(_ revisions: [StorableRevision], _ transaction: WriteTransaction) throws(StoreError) -> [StoreOutcome] {
        var outcomes: [StoreOutcome] = []
        outcomes.reserveCapacity(revisions.count)
        var access: ChannelAccess?
        for each in revisions {
            do throws(StoreError) { outcomes.append(try store(each, transaction, &access)) } catch {
                // The stored document cannot be read; the rest of the batch is not affected.
                guard case .documentDamaged = error else { throw error }
                outcomes.append(.failed(error))
            }
        }
        return outcomes
    }

    /// Whether it replaces the current revision, or is the same.
    private func supersedesLocal(_ incoming: IncomingRevision, _ transaction: WriteTransaction) throws(StoreError) -> Bool {
        guard let row = try transaction.row(collection, incoming.id) else { return true }
        return !row.hasConflict && (row.revision == incoming.revision || incoming.history.contains(row.revision))
    }

    private func store(
        _ storable: StorableRevision, _ transaction: WriteTransaction, _ access: inout ChannelAccess?
    ) throws(StoreError) -> StoreOutcome {
        let revision = storable.revision
        var incoming = try incoming(storable, transaction)
        var conflicts = conflicts
        let isUnaware = try sender?.isUnaware(SenderView.Claim(revision), collection, transaction, &access) ?? false
        if isUnaware, let row = try transaction.row(collection, revision.id) {
            // To a peer that may not see the document, a deleted one looks like none at all, so it may create it.
            guard row.isDeleted else {
                sender?.account.note()
                return .stored(.conflict(current: row.revision))
            }
            conflicts = .refuse
        }
        if let sender, let row = try transaction.row(collection, revision.id),
            try sender.hidesBranch(of: SenderView.Claim(revision), collection, transaction)
        {
            return .stored(.conflict(current: row.revision))
        }
        if naming != .trees {
            guard let located = try transaction.locate(incoming, in: collection, isUnaware: isUnaware) else {
                try settle(revision, transaction)
                return .stored(.alreadyPresent)
            }
            incoming = located
        }
        // Otherwise the peer would never be offered what it lost. In a conflict, its side has to be known.
        if revision.mayBeLostAtPeer, try supersedesLocal(incoming, transaction) { incoming.remote = nil }
        if storable.route != nil {
            let current = try transaction.document(collection, revision.id)?.revision
            guard current == storable.seen || current == incoming.revision else { return .moved }
        }
        let outcome: InsertOutcome
        do throws(StoreError) {
            outcome = try transaction.insert(incoming, into: collection, conflicts: conflicts)
            if outcome.isNew { try assign(storable, as: incoming.revision, transaction) }
        } catch {
            // If the disk is full, nothing of the batch would be stored, so it fails as a whole.
            guard error.concernsOneDocument || takesWhatFits && error.isOutOfSpace else { throw error }
            return .failed(error)
        }
        try settle(revision, transaction)
        return .stored(outcome)
    }

    /// The revision in the store's terms.
    private func incoming(_ storable: StorableRevision, _ transaction: WriteTransaction) throws(StoreError) -> IncomingRevision {
        let revision = storable.revision
        // A losing leaf is not the peer's revision: pushes and later pulls go by the winner.
        let remote = revision.branches?.isLoser == true ? nil : remote
        var incoming = IncomingRevision(
            id: revision.id, revision: revision.revision, history: revision.history, isDeleted: revision.isDeleted,
            body: revision.body, isValidated: true, hasBlobs: !revision.blobs.isEmpty, remote: remote)
        if keepsLeaves { incoming.deletion = .leaf }
        incoming.peerHasOne = peerHasOne
        if let branches = revision.branches {
            (incoming.peerLeaves, incoming.endedLeaves, incoming.deletion) = (branches.others, branches.ended, branches.deletion)
            incoming.isResumed = branches.isResumed
        }
        (incoming.peerHad, incoming.offeredBefore, incoming.vector) = (revision.peerHad, revision.offeredBefore, revision.vector)
        incoming.missesDeletion = deletionsUnderWay.contains(revision.id)
        incoming.sender = peer
        incoming.isLocallyGenerated = storable.isEdit
        return incoming
    }

    /// Gives the stored revision its channels and its expiry. A tombstone that ends another branch, and a losing branch, leave the current revision and
    /// what was assigned to that alone.
    private func assign(_ storable: StorableRevision, as stored: RevisionID, _ transaction: WriteTransaction) throws(StoreError) {
        let id = storable.revision.id
        let expiry = storable.revision.isDeleted ? nil : storable.revision.expiry
        guard storable.route != nil || expiry != nil else { return }
        let isCurrent = try transaction.row(collection, id)?.revision == stored
        if isCurrent, let route = storable.route { try transaction.route(collection, id, stored, route) }
        if isCurrent, let expiry { try transaction.setExpiry(collection, id, expiry) }
        if !isCurrent, let expiry { try transaction.setExpiry(collection, id, expiry, ofBranch: stored) }
    }

    private func settle(_ revision: CheckedRevision, _ transaction: WriteTransaction) throws(StoreError) {
        if settlesHeld, let remote { try HeldRevisions.settle(revision, remote, collection, transaction) }
    }
}

extension InsertOutcome {
    fileprivate var isNew: Bool {
        switch self {
        case .inserted, .insertedConflict: true
        default: false
        }
    }
}

extension DocumentRoute {
    init(_ assignment: SyncAssignment, plugin: String, version: String) {
        self.init(
            channels: Set(assignment.channels), access: assignment.access, roles: assignment.roles, expires: assignment.expiry,
            plugin: plugin, version: version)
    }
}
