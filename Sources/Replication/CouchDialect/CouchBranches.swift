import Documents
import DocumentStore
import Encodings
import Interfaces

/// Conflicts: the peer keeps every branch. Where one was given up here, it ends there as well, so that every peer comes to the same.
extension CouchDialect {
    func decided(_ slot: Int, _ ids: [DocumentID]) {
        guard pushes else { return }
        let seen = state.withLock { state in
            Set(ids).sorted().compactMap { id -> (DocumentID, Set<RevisionID>)? in
                guard let leaves = state.leaves[id]?.filter({ $0.value == .here }).keys, !leaves.isEmpty else { return nil }
                return (id, Set(leaves))
            }
        }
        guard !seen.isEmpty else { return }
        state.withLock { $0.writes += 1 }
        run { dialect in
            for (id, leaves) in seen { try await dialect.endLosers(of: id, leaves) }
        } finally: { $0.writes -= 1 }
    }

    /// These came and are stored.
    func stored(_ revisions: [StorableRevision], _ outcomes: [StoreOutcome]) {
        state.withLock { state in
            guard !state.leaves.isEmpty else { return }
            for (each, outcome) in zip(revisions, outcomes) {
                if case .stored = outcome, state.leaves[each.revision.id] != nil { state.leaves[each.revision.id]?[each.revision.revision] = .here }
            }
        }
    }

    /// Whether a deleted leaf ends a branch that is here beside another.
    func endsBranch(_ document: FoundDocument) async throws -> Bool {
        guard let collection = database.collection(collection), let tree = try await database.read({ try $0.tree(collection, document.id) }) else {
            return false
        }
        if let winner = tree.winner?.revision, document.history.contains(winner) { return false }
        return document.history.contains { tree.isLeaf($0) && tree.isDeleted($0) == false }
    }

    private func endLosers(of id: DocumentID, _ leaves: Set<RevisionID>) async throws {
        guard let collection = database.collection(collection), let tree = try await database.read({ try $0.tree(collection, id) }),
            let winner = tree.winner?.revision
        else { return }
        var lost: [RevisionID] = []
        for leaf in leaves.sorted() where leaf != winner && !tree.isAncestor(leaf, of: winner) {
            // The turn of one that is still a branch here comes.
            if !tree.isLeaf(leaf) || tree.isDeleted(leaf) == true { lost.append(leaf) }
        }
        guard !lost.isEmpty else { return }
        state.withLock { state in for leaf in lost { state.leaves[id]?[leaf] = .lost } }
        let open = PercentEncoding.encode(JSONValue.array(lost.map { .string($0.text) }).text)
        let path = "/\(PercentEncoding.encode(id.text))?revs=true&latest=true&open_revs=\(open)"
        let answer = try await ask(PeerRequest("GET", path, json: nil))
        if answer.status == 404 { return }
        guard answer.isGood else { throw ReplicationError(answer, to: "GET \(path)") }
        for found in (try answer.json("GET \(path)").asArray ?? []).map({ FoundRevision($0) }) {
            // What grew on since is news, and no loser.
            guard case .document(let document) = found, !document.isDeleted, lost.contains(document.revision) else { continue }
            try await end(document)
        }
    }

    /// Ends a branch with the tombstone that anybody else would give it.
    private func end(_ document: FoundDocument) async throws {
        let tombstone = RevisionDigest.revision(parent: document.revision, deleted: true, canonicalBody: Array("{}".utf8))
        var outgoing = OutgoingDocument(sequence: 0, id: document.id, version: tombstone)
        outgoing.isDeleted = true
        outgoing.history = [document.revision] + document.history
        let docs = JSONValue.array([try JSONValue(parsing: outgoing.couchText(Array("{}".utf8), attachments: nil))])
        let refused = try await askJSON("POST", "/_bulk_docs", ["new_edits": false, "docs": docs]).asArray ?? []
        if let error = refused.first?["error"]?.asString {
            tell([.warn("the peer does not let the losing branch \(document.revision) of document \(document.id) end: \(error.prefix(100))")])
        } else {
            tell([.pull(slot: 0, .pushed(document.id, tombstone))])
        }
    }
}
