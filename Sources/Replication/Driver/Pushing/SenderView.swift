import Documents
import DocumentStore
import Interfaces

/// What the sender of revisions may see of the documents that it changes. For one who may not see a document there is none, so that its
/// edits are no sides to be decided between, and tell nothing: of what it may not see, it has to name the revision that it replaces by its
/// id, which nobody guesses. A version is a time and a source; it counts if it was exchanged on this connection.
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

        /// The current revision is the same, or one that it says it replaces.
        fileprivate func names(_ current: RevisionID) -> Bool {
            revision == current || history.contains(current) || vector?.names(current) == true
        }
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
        guard let row = try transaction.row(collection, claim.id), !claim.names(row.revision) else { return false }
        let name = naming == .trees ? row.revision : try transaction.currentName(collection, claim.id, naming) ?? row.revision
        if exchanged[claim.id] == name { return false }
        // Once more, since the answer was lost: who made it has its body as well.
        if claim.revision == name, try transaction.document(collection, claim.id)?.body == claim.body { return false }
        if let passed { return passed[claim.id] != name }
        guard let channels else { return false }
        if access == nil { access = try transaction.channelAccess(collection, of: channels) }
        guard let access else { return true }
        return try !transaction.isVisible(collection, claim.id, row.revision, to: access)
    }

    /// Those of the documents for which it matters what the push filter says.
    static func unnamed(_ claims: [Claim], _ collection: Collection, _ transaction: ReadTransaction) throws(StoreError) -> [DocumentID] {
        var ids: Set<DocumentID> = []
        for claim in claims {
            guard let current = try transaction.row(collection, claim.id)?.revision, !claim.names(current) else { continue }
            ids.insert(claim.id)
        }
        return Array(ids)
    }
}

extension PeerView {
    /// What the peer may see of the documents that it changes.
    func sender(of revisions: [CheckedRevision]) async throws -> SenderView {
        var sender = SenderView(channels: peer, naming: naming)
        guard filter != nil else { return sender }
        let (collection, claims) = (collection, revisions.map(SenderView.Claim.init))
        let ids = try await database.read { try SenderView.unnamed(claims, collection, $0) }
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
