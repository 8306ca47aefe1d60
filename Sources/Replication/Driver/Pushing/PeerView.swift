import Documents
import DocumentStore
import Interfaces

/// What one peer of a listener may have of a collection now: what its channels hold, and the push filter lets pass. Asked where a
/// peer would learn of a document otherwise than by its feed.
struct PeerView: Sendable {
    let database: Database
    let collection: Collection
    /// Nil: no channels bound it.
    let peer: ChannelPeer?
    let filter: (any DocumentFilter)?
    let context: PolicyContext
    /// What the peer calls revisions.
    var naming = RevisionNaming.trees

    /// Bytes of bodies that are shown to the filter at once.
    static let pageBytes = 4 << 20

    /// What a peer's proposals are answered. Of documents that it may not have it learns nothing, not even that they exist: as with
    /// one that is not here, their revisions may come, and are judged when they do.
    func check(_ proposals: [Proposal]) async throws -> [ProposalVerdict] {
        let (collection, naming) = (collection, naming)
        let verdicts = try await database.read { try $0.checkProposals(collection, proposals, naming: naming) }
        // A document that is proposed a thousand times is looked at once.
        var seen: Set<DocumentID> = []
        let told = zip(proposals, verdicts).filter { $0.1 != .accept && seen.insert($0.0.id).inserted }.map(\.0.id)
        let visible = try await visible(told)
        return zip(proposals, verdicts).map { proposal, verdict in
            let told: Version? =
                switch verdict {
                case .accept: nil
                case .have: proposal.revision
                case .conflict(let current): current
                }
            return told == nil || visible[proposal.id] != told ? .accept : verdict
        }
    }

    /// What the peer calls the current revisions of those documents that the peer may have.
    func visible(_ ids: [DocumentID]) async throws -> [DocumentID: Version] {
        var found: [DocumentID: Version] = [:]
        var rest = ids[...]
        while !rest.isEmpty {
            let (documents, taken) = try await read(rest, withBodies: filter != nil)
            rest = rest.dropFirst(taken)
            for document in documents { found[document.id] = document.revision }
        }
        return found
    }

    /// The blobs that the document's current revision names; none where the peer may not have it.
    ///
    /// - Parameter limit: bytes of a body; a larger one is not looked at.
    func blobs(of id: DocumentID, limit: Int = .max) async throws -> Set<BlobDigest> {
        let collection = collection
        let row = try await database.read { try $0.row(collection, id) }
        guard let row, row.hasBlobs, row.bodySize <= limit else { return [] }
        let (documents, _) = try await read([id], withBodies: true)
        return Set(documents.flatMap { ((try? BlobReferences.find(in: $0.body)) ?? []).map(\.digest) })
    }

    /// Those of the first documents that the peer may have, and how many were looked at.
    private func read(_ ids: ArraySlice<DocumentID>, withBodies: Bool) async throws -> ([PolicyDocument], Int) {
        let (collection, peer, naming) = (collection, peer, naming)
        let (documents, taken) = try await database.read { transaction in
            let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
            var documents: [PolicyDocument] = []
            var (taken, bytes) = (0, 0)
            for id in ids where bytes < Self.pageBytes {
                taken += 1
                let found = try transaction.row(collection, id, withBody: withBodies)
                guard let found, try access.map({ try transaction.isVisible(collection, id, found.revision, to: $0) }) ?? true else { continue }
                bytes += found.body?.count ?? 0
                let name: RevisionID
                do throws(StoreError) { name = try transaction.currentName(collection, id, naming) ?? found.revision } catch {
                    // Nobody gets it, and what comes may repair it.
                    guard case .documentDamaged = error else { throw error }
                    continue
                }
                documents.append(PolicyDocument(id: id, revision: name, isDeleted: found.isDeleted, body: found.body ?? []))
            }
            return (documents, taken)
        }
        guard let filter, !documents.isEmpty else { return (documents, taken) }
        let verdicts = await filter.verdicts(documents, context)
        return (zip(documents, verdicts).filter { $0.1.passes }.map(\.0), taken)
    }
}

extension DocumentFilter {
    /// One verdict for each document, whatever the filter does.
    func verdicts(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict] {
        var verdicts = await evaluate(documents, context)
        while verdicts.count < documents.count { verdicts.append(missingVerdict) }
        guard version.isEmpty else { return verdicts }
        return verdicts.map { if case .replace = $0 { namelessVerdict } else { $0 } }
    }
}
