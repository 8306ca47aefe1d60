import Documents
import DocumentStore
import Interfaces

/// What the sender of revisions may see of the documents that it changes. For one who may not see a document there is none, so that its
/// edits are no sides to be decided between, and tell nothing: of what it may not see, it has to name the revision that it replaces by its
/// id. Who guesses at ids, which are digests of what stands in a revision, is not believed for long (``HiddenConflicts``). A version is a time and a
/// source; it counts if it was exchanged on this connection.
struct SenderView: Sendable {
    /// Nil: no channels bound it.
    let channels: ChannelPeer?
    /// Where there is a push filter, what the documents that it lets pass are called.
    var passed: [DocumentID: Version]?
    /// Where there is a push filter, those branches that it lets pass.
    var shownBranches: Set<Branch>?
    /// What was last exchanged of the documents.
    var exchanged: [DocumentID: Version] = [:]
    let naming: RevisionNaming
    /// Who is counted for names that are wrong.
    let account: HiddenConflicts.Account
    /// A filter changes what comes, perhaps each time in another way: what is stored is not what the sender repeats.
    var changesBodies = false

    /// Of an incoming revision, what says whom it comes from.
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

        /// It says that it replaces the current revision.
        fileprivate func replaces(_ current: RevisionID) -> Bool { history.contains(current) || vector?.names(current) == true }
    }

    /// A leaf beside the current revision.
    struct Branch: Hashable, Sendable {
        var id: DocumentID
        var leaf: RevisionID
    }

    /// The branch that a revision would go on with, or end, unless it is here.
    ///
    /// - Parameter revision: nil: it is yet to be made.
    static func branch(
        _ id: DocumentID, _ revision: RevisionID?, _ history: some Sequence<RevisionID>, _ collection: Collection, _ transaction: ReadTransaction
    ) throws(StoreError) -> Branch? {
        // What comes may repair a damaged document, which has no branches that anybody sees.
        guard let row = try transaction.row(collection, id), row.hasTree, revision != row.revision, let tree = try? row.revisionTree(),
            revision.map({ !tree.contains($0) }) ?? true, let parent = history.first(where: { tree.contains($0) }), parent != row.revision, tree.isLeaf(parent)
        else { return nil }
        return Branch(id: id, leaf: parent)
    }

    /// Whether it would go on with a branch that the filter does not show to its sender. Of branches that channels do not show it is not known who
    /// had them while they were current: whoever names one by its id counts as one who had it.
    func hidesBranch(of claim: Claim, _ collection: Collection, _ transaction: ReadTransaction) throws(StoreError) -> Bool {
        guard let shownBranches, let branch = try Self.branch(claim.id, claim.revision, claim.history, collection, transaction) else { return false }
        return !shownBranches.contains(branch) && exchanged[claim.id] != branch.leaf
    }

    /// Whether its sender may not see the document that is here, and has not named it.
    func isBlind(
        _ claim: Claim, _ collection: Collection, _ transaction: ReadTransaction, _ access: inout ChannelAccess?
    ) throws(StoreError) -> Bool {
        guard let row = try transaction.row(collection, claim.id) else { return false }
        let isBelieved = !account.isExhausted
        if isBelieved, claim.replaces(row.revision) || claim.revision == row.revision && repeats(claim, collection, transaction, hasBlobs: row.hasBlobs) {
            return false
        }
        let name = naming == .trees ? row.revision : try transaction.currentName(collection, claim.id, naming) ?? row.revision
        if exchanged[claim.id] == name { return false }
        if isBelieved, naming != .trees, claim.revision == name, try transaction.document(collection, claim.id)?.body == claim.body { return false }
        if let passed { return passed[claim.id] != name }
        guard let channels else { return false }
        if access == nil { access = try transaction.channelAccess(collection, of: channels) }
        guard let access else { return true }
        return try !transaction.isVisible(collection, claim.id, row.revision, to: access)
    }

    /// Whether it is what is here, once more: who made it has its body as well, and who only guessed its id need not have it. What stands in an
    /// attachment's entry differs with how it came; and a damaged document may be repaired by what comes.
    private func repeats(_ claim: Claim, _ collection: Collection, _ transaction: ReadTransaction, hasBlobs: Bool) -> Bool {
        if changesBodies || hasBlobs { return true }
        guard let stored = try? transaction.document(collection, claim.id) else { return true }
        return stored.body == claim.body
    }

    /// Those of the documents for which it matters what the push filter says: of a sender that may not be believed to the end, all that are here.
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
    /// What the peer may see of the documents that it changes.
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
        // As without a filter, whoever names a branch that channels do not show counts as one who had it: the filter alone is asked.
        sender.shownBranches = try await shown(branches, asksChannels: false)
        return sender
    }

    /// Those of the branches that the peer may see. Channels are assigned to current revisions: who is bound to them sees no other.
    ///
    /// - Parameter asksChannels: else the filter alone decides.
    func shown(_ branches: [SenderView.Branch], asksChannels: Bool = true) async throws -> Set<SenderView.Branch> {
        var rest = Array(Set(branches))[...]
        var shown: Set<SenderView.Branch> = []
        while !rest.isEmpty {
            let (collection, peer, asked) = (collection, peer, rest)
            let documents: [PolicyDocument]? = try await database.read { transaction in
                if asksChannels, let peer, try !transaction.channelAccess(collection, of: peer).hasEverything { return nil }
                var documents: [PolicyDocument] = []
                var bytes = 0
                for branch in asked where bytes < Self.pageBytes {
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
