import Documents
import DocumentStore
import Encodings
import Interfaces

/// Writes a batch of revisions in the store's transaction: one outcome for each. One bad document does not spoil the batch; a
/// store that cannot write does.
struct RevisionStoring: Sendable {
    let collection: Collection
    /// The peer that they came from, if it is remembered.
    var remote: RemoteID?
    var conflicts: ConflictHandling
    /// What is stored is taken off the list of what was kept back.
    var settlesHeld: Bool
    /// Every leaf is kept, as CouchDB does: a tombstone ends its own branch.
    var keepsLeaves = false
    /// The peer has one revision of each document.
    var peerHasOne = true
    /// What the peer calls revisions.
    var naming = RevisionNaming.trees
    /// Of a peer that may not see everything.
    var sender: SenderView?
    /// Documents whose deletion the peer is being told while it sends these.
    var deletionsUnderWay: Set<DocumentID> = []
    /// What there is no room for stays out by itself, and the others of the batch are stored, such as deletions.
    var takesWhatFits = false
    /// Who gave them, in words.
    var peer: String?

    func store(_ revisions: [StorableRevision], _ transaction: WriteTransaction) throws(StoreError) -> [StoreOutcome] {
        var outcomes: [StoreOutcome] = []
        outcomes.reserveCapacity(revisions.count)
        var access: ChannelAccess?
        for each in revisions {
            do throws(StoreError) { outcomes.append(try store(each, transaction, &access)) } catch {
                // What is stored of this document cannot be read; the others of the batch do not wait for that.
                guard case .documentDamaged = error else { throw error }
                outcomes.append(.failed(error))
            }
        }
        return outcomes
    }

    private func followsWhatIsHere(_ revision: CheckedRevision, _ transaction: WriteTransaction) throws(StoreError) -> Bool {
        guard let row = try transaction.row(collection, revision.id) else { return true }
        return !row.hasConflict && revision.history.contains(row.revision)
    }

    private func store(
        _ storable: StorableRevision, _ transaction: WriteTransaction, _ access: inout ChannelAccess?
    ) throws(StoreError) -> StoreOutcome {
        let revision = storable.revision
        // A leaf that does not win is not what the peer has: pushes and later pulls go by the winner.
        var remote = revision.branches?.isLoser == true ? nil : remote
        // Else the peer would never be offered what it lost. Of a conflict its side has to be known.
        if revision.mayBeLostThere, try followsWhatIsHere(revision, transaction) { remote = nil }
        var incoming = IncomingRevision(
            id: revision.id, revision: revision.revision, history: revision.history, isDeleted: revision.isDeleted,
            body: revision.body, isValidated: true, hasBlobs: !revision.blobs.isEmpty, remote: remote)
        if keepsLeaves { incoming.deletion = .leaf }
        incoming.peerHasOne = peerHasOne
        if let branches = revision.branches {
            (incoming.peerLeaves, incoming.endedLeaves, incoming.deletion) = (branches.others, branches.ended, branches.deletion)
        }
        (incoming.peerHad, incoming.offeredBefore, incoming.vector) = (revision.peerHad, revision.offeredBefore, revision.vector)
        incoming.missesDeletion = deletionsUnderWay.contains(revision.id)
        incoming.sender = peer
        incoming.isMadeHere = storable.isEdit
        var conflicts = conflicts
        let isBlind = try sender?.isBlind(SenderView.Claim(revision), collection, transaction, &access) ?? false
        if isBlind, let row = try transaction.row(collection, revision.id) {
            // It may be made anew, like one that is not here.
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
            guard let located = try transaction.locate(incoming, in: collection, isBlind: isBlind) else { return .stored(.alreadyPresent) }
            incoming = located
        }
        if storable.route != nil {
            let current = try transaction.document(collection, revision.id)?.revision
            guard current == storable.seen || current == incoming.revision else { return .moved }
        }
        let outcome: InsertOutcome
        do throws(StoreError) {
            outcome = try transaction.insert(incoming, into: collection, conflicts: conflicts)
            // A tombstone that ends another branch, or a branch that does not win, leaves the current revision, its channels and its expiry alone.
            let expiry = revision.isDeleted ? nil : revision.expiry
            if outcome.isNew, storable.route != nil || expiry != nil {
                let isCurrent = try transaction.row(collection, revision.id)?.revision == incoming.revision
                if isCurrent, let route = storable.route { try transaction.route(collection, revision.id, incoming.revision, route) }
                if isCurrent, let expiry { try transaction.setExpiry(collection, revision.id, expiry) }
                if !isCurrent, let expiry { try transaction.setExpiry(collection, revision.id, expiry, ofBranch: incoming.revision) }
            }
        } catch {
            // Of a disk that is full nothing of the batch would be stored, and it fails as a whole.
            guard error.concernsOneDocument || takesWhatFits && error.isNoRoom else { throw error }
            return .failed(error)
        }
        if settlesHeld, let remote = self.remote { try HeldRevisions.settle(revision, remote, collection, transaction) }
        return .stored(outcome)
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
