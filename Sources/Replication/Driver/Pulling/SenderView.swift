import Documents
import DocumentStore
import Interfaces

/// What the sender of revisions may see of the documents it changes. To a sender that may not see a document, the document does not exist: its edits
/// do not count as sides of a conflict, and reveal nothing. To replace a revision that it may not see, it has to name that revision's id. A sender
/// that guesses ids, which are digests of the content, is soon no longer trusted (``HiddenConflicts``). A version, which is only a time and a source,
/// counts if it was exchanged on this connection.
struct SenderView: Sendable {
    /// Nil if the sender is not limited to channels.
    let channels: ChannelPeer?
    /// If there is a push filter, the documents that it lets pass, with the peer's name for their revision.
    var passed: [DocumentID: Version]?
    /// If there is a push filter, the branches that it lets pass.
    var shownBranches: Set<Branch>?
    /// The last revision exchanged of each document.
    var exchanged: [DocumentID: Version] = [:]
    let naming: RevisionNaming
    /// The account charged for wrong guesses.
    let account: HiddenConflicts.Account
    /// A filter changes incoming bodies, possibly differently each time, so the stored body is not what the sender repeats.
    var changesBodies = false

    /// The parts of an incoming revision that tell what its sender knows.
    struct Claim: Sendable {
        var id: DocumentID
        var revision: Version
        var history: RevisionHistory
        var vector: VectorHistory?
        var body: [UInt8]

        init(_ revision: CheckedRevision) {
            (id, self.revision, history) = (revision.id, revision.revision, revision.history)
            (vector, body) = (revision.vector, revision.body)
        }

        /// Whether it claims to replace the current revision.
        fileprivate func replaces(_ current: RevisionID) -> Bool { history.contains(current) || vector?.names(current) == true }
    }

    /// A leaf besides the current revision.
    struct Branch: Hashable, Sendable {
        var id: DocumentID
        var leaf: RevisionID
    }

    /// The branch that a revision would continue or end, unless the revision is already here.
    ///
    /// - Parameter revision: nil if it has yet to be created.
    static func branch(
        _ id: DocumentID, _ revision: RevisionID?, _ history: some Sequence<RevisionID>, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Branch? {
        // An incoming revision may repair a damaged document, whose branches nobody can see.
        guard let row = try transaction.row(collection, id), row.hasTree, revision != row.revision, let tree = try? row.revisionTree(),
            revision.map({ !tree.contains($0) }) ?? true, let parent = history.first(where: { tree.contains($0) }), parent != row.revision, tree.isLeaf(parent)
        else { return nil }
        return Branch(id: id, leaf: parent)
    }

    /// Whether it would continue a branch that the filter hides from its sender. For branches hidden by channels it is unknown who had them while
    /// they were current: a peer that names one by its id counts as having had it.
    func hidesBranch(of claim: Claim, _ collection: Collection, _ transaction: ReadTransaction) throws(StoreError) -> Bool {
        guard let shownBranches, let branch = try Self.branch(claim.id, claim.revision, claim.history, collection, transaction) else { return false }
        return !shownBranches.contains(branch) && exchanged[claim.id] != branch.leaf
    }

    /// Whether its sender may not see the stored document, and has not named its revision.
    func isUnaware(
        _ claim: Claim, _ collection: Collection, _ transaction: ReadTransaction, _ access: inout ChannelAccess?
    ) throws(StoreError) -> Bool {
        guard let row = try transaction.row(collection, claim.id) else { return false }
        let isCredible = !account.isExhausted
        if isCredible, claim.replaces(row.revision) || claim.revision == row.revision && repeats(claim, collection, transaction, hasBlobs: row.hasBlobs) {
            return false
        }
        let name = naming == .trees ? row.revision : try transaction.currentName(collection, claim.id, naming) ?? row.revision
        if exchanged[claim.id] == name { return false }
        if isCredible, naming != .trees, claim.revision == name, try transaction.document(collection, claim.id)?.body == claim.body { return false }
        if let passed { return passed[claim.id] != name }
        guard let channels else { return false }
        if access == nil { access = try transaction.channelAccess(collection, of: channels) }
        guard let access else { return true }
        return try !transaction.isVisible(collection, claim.id, row.revision, to: access)
    }

    /// Whether it repeats the stored revision: a peer that created it has its body as well, while one that guessed its id need not. Attachment
    /// entries are ignored, since they depend on how the attachment was sent; and a damaged document may be repaired by what arrives.
    private func repeats(_ claim: Claim, _ collection: Collection, _ transaction: ReadTransaction, hasBlobs: Bool) -> Bool {
        if changesBodies || hasBlobs { return true }
        guard let stored = try? transaction.document(collection, claim.id) else { return true }
        return stored.body == claim.body
    }

    /// The documents for which the push filter's answer matters: for a sender that is not trusted completely, all that exist here.
    static func doubted(
        _ claims: [Claim], _ account: HiddenConflicts.Account, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> [DocumentID] {
        var named: [DocumentID] = []
        var ids: Set<DocumentID> = []
        var wrong = 0
        for claim in claims {
            guard let current = try transaction.row(collection, claim.id)?.revision else { continue }
            if claim.replaces(current) {
                named.append(claim.id)
            } else {
                ids.insert(claim.id)
                wrong += 1
            }
        }
        if account.mayRunOut(wrong) { ids.formUnion(named) }
        return Array(ids)
    }
}

extension PeerView {
    /// What the peer may see of the documents it changes.
    func sender(of revisions: [CheckedRevision], _ configuration: PassiveConfiguration, remote: String) async throws -> SenderView {
        let account = configuration.hiddenAccount(remote)
        var sender = SenderView(channels: peer, naming: naming, account: account)
        sender.changesBodies = configuration.pullFilter?.changesBodies ?? false
        guard filter != nil else { return sender }
        let (collection, claims) = (collection, revisions.map(SenderView.Claim.init))
        let ids = try await database.read { try SenderView.doubted(claims, account, collection, $0) }
        sender.passed = try await visible(ids)
        let branches = try await database.read { transaction in
            try claims.compactMap { try SenderView.branch($0.id, $0.revision, $0.history, collection, transaction) }
        }
        // As without a filter, a peer that names a branch that is hidden by channels counts as having had it: only the filter is asked.
        sender.shownBranches = try await shown(branches, asksChannels: false)
        return sender
    }

    /// The branches that the peer may see. Channels are assigned to current revisions: a peer limited to channels sees no others.
    ///
    /// - Parameter asksChannels: if false, only the filter decides.
    func shown(_ branches: [SenderView.Branch], asksChannels: Bool = true) async throws -> Set<SenderView.Branch> {
        var rest = Array(Set(branches))[...]
        var shown: Set<SenderView.Branch> = []
        while !rest.isEmpty {
            let (collection, peer, asked) = (collection, peer, rest)
            let documents: [PolicyDocument]? = try await database.read { transaction in
                if asksChannels, let peer, try !transaction.channelAccess(collection, of: peer).hasEverything { return nil }
                var documents: [PolicyDocument] = []
                var bytes = 0
                for branch in asked where bytes < DriverBounds.filteredBytes {
                    let isDeleted = try transaction.tree(collection, branch.id)?.isDeleted(branch.leaf) ?? false
                    let body = try transaction.body(collection, branch.id, branch.leaf) ?? Array("{}".utf8)
                    bytes += body.count
                    documents.append(PolicyDocument(id: branch.id, revision: branch.leaf, isDeleted: isDeleted, body: body))
                }
                return documents
            }
            guard let documents else { return [] }
            let verdicts = await filter?.verdicts(documents, context)
            for (index, branch) in rest.prefix(documents.count).enumerated() where verdicts?[index].passes ?? true { shown.insert(branch) }
            rest = rest.dropFirst(documents.count)
        }
        return shown
    }
}
