import Documents
import DocumentStore

/// What the sender of revisions may see of the documents that it changes. For one who may not see a document there is none, so that its
/// edits are no sides to be decided between, and tell nothing: of what it may not see, it has to name the revision that it replaces by its
/// id, which nobody guesses. A version is a time and a source; it counts if it was exchanged on this connection.
struct SenderView: Sendable {
    /// Nil: no channels bound it.
    let channels: ChannelPeer?
    /// Where there is a push filter, what the documents that it lets pass are called.
    var passed: [DocumentID: Version]?
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
        return sender
    }
}
