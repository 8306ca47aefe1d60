import Documents
import DocumentStore
import Interfaces

/// What one peer of a listener may currently see of a collection: the documents in its channels that the push filter lets pass. Used wherever a peer
/// could learn of a document other than by its feed.
struct PeerView: Sendable {
    let database: Database
    let collection: Collection
    /// Nil if the peer is not limited to channels.
    let peer: ChannelPeer?
    let filter: (any DocumentFilter)?
    let context: PolicyContext
    /// How the peer names revisions.
    var naming = RevisionNaming.trees

    /// The answers to a peer's proposals. It learns nothing about documents that it may not see, not even that they exist: as for a document that is
    /// not here, their revisions may be sent, and are judged when they arrive.
    func check(_ proposals: [Proposal]) async throws -> [ProposalVerdict] {
        let (collection, naming) = (collection, naming)
        let verdicts = try await database.read { try $0.checkProposals(collection, proposals, naming: naming) }
        // A document proposed a thousand times is looked up once.
        var seen: Set<DocumentID> = []
        let told = zip(proposals, verdicts).filter { $0.1 != .accept && seen.insert($0.0.id).inserted }.map(\.0.id)
        let visible = try await visible(told)
        return zip(proposals, verdicts).map { proposal, verdict in
            let told: Version? =
                switch verdict {
                case .accept: nil
                case .have, .haveNewer: proposal.revision
                case .conflict(let current): current
                }
            return told == nil || visible[proposal.id] != told ? .accept : verdict
        }
    }

    /// Of these documents, those that the peer may see, with the peer's name for their current revision.
    func visible(_ ids: [DocumentID]) async throws -> [DocumentID: Version] {
        var found: [DocumentID: Version] = [:]
        var rest = ids[...]
        while !rest.isEmpty {
            let (documents, taken) = try await read(rest, withBodies: filter != nil)
            rest = rest.dropFirst(taken)
            for (document, verdict) in documents where verdict.passes { found[document.id] = document.revision }
        }
        return found
    }

    /// The blobs named by the document's current revision; none if the peer may not see it.
    ///
    /// - Parameter limit: maximum size of a body in bytes; a larger one is not examined.
    func blobs(of id: DocumentID, limit: Int) async throws -> Set<BlobDigest> {
        try await namedBlobs(id, limit: limit).reduce(into: []) { if $1.verdict.passes { $0.formUnion($1.blobs) } }
    }

    /// Whether the document's current revision names the blob and the peer may see it.
    ///
    /// - Throws: a ``PolicyFailure`` if it names the blob and the filter could not decide. Only somebody who has seen the document knows both names, so
    ///   others do not learn from it that the document exists.
    func names(_ digest: BlobDigest, in id: DocumentID) async throws -> Bool {
        for (blobs, verdict) in try await namedBlobs(id, limit: .max) where blobs.contains(digest) {
            if case .failed(let failure) = verdict { throw failure }
            return verdict.passes
        }
        return false
    }

    /// The blobs of a document in the peer's channels, with the filter's verdict on it.
    private func namedBlobs(_ id: DocumentID, limit: Int) async throws -> [(blobs: Set<BlobDigest>, verdict: FilterVerdict)] {
        let collection = collection
        let row = try await database.read { try $0.row(collection, id) }
        guard let row, row.hasBlobs, row.bodySize <= limit else { return [] }
        return try await read([id], withBodies: true).0.map { document, verdict in
            (Set(((try? BlobReferences.find(in: document.body)) ?? []).map(\.digest)), verdict)
        }
    }

    /// Of the first documents, those in the peer's channels with the filter's verdicts, and how many were processed.
    private func read(_ ids: ArraySlice<DocumentID>, withBodies: Bool) async throws -> ([(PolicyDocument, FilterVerdict)], Int) {
        let (collection, peer, naming) = (collection, peer, naming)
        let (documents, taken) = try await database.read { transaction in
            let access = try peer.map { try transaction.channelAccess(collection, of: $0) }
            var documents: [PolicyDocument] = []
            var (taken, bytes) = (0, 0)
            for id in ids where bytes < DriverBounds.filteredBytes {
                taken += 1
                let found = try transaction.row(collection, id, withBody: withBodies)
                guard let found, try access.map({ try transaction.isVisible(collection, id, found.revision, to: $0) }) ?? true else { continue }
                bytes += found.body?.count ?? 0
                let name: RevisionID
                do throws(StoreError) { name = try transaction.currentName(collection, id, naming) ?? found.revision } catch {
                    // Nobody gets it, and an incoming revision may repair it.
                    guard case .documentDamaged = error else { throw error }
                    continue
                }
                documents.append(PolicyDocument(id: id, revision: name, isDeleted: found.isDeleted, body: found.body ?? []))
            }
            return (documents, taken)
        }
        guard let filter, !documents.isEmpty else { return (documents.map { ($0, .pass) }, taken) }
        return (Array(zip(documents, await filter.verdicts(documents, context))), taken)
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
