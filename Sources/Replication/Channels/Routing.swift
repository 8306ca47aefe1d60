import Documents
import DocumentStore
import Interfaces

extension SyncFunction {
    /// The function's assignments for stored revisions, asked on behalf of the agent itself. Documents that it refuses or cannot decide about are in
    /// no channel.
    func routes(of documents: [PolicyDocument], _ context: PolicyContext) async -> [(PolicyDocument, DocumentRoute)] {
        let (plugin, version) = (pluginName, version)
        let verdicts = await assign(documents.map { SyncRequest(document: $0, old: nil, caller: .admin) }, context)
        return documents.enumerated().map { index, document in
            switch index < verdicts.count ? verdicts[index] : missingVerdict {
            case .accepted(let assignment): (document, DocumentRoute(assignment, plugin: plugin, version: version))
            case .rejected(let reason): (document, DocumentRoute(plugin: plugin, version: version, error: DocumentRoute.rejected + reason))
            case .failed(let failure): (document, DocumentRoute(plugin: plugin, version: version, error: "\(failure.kind): \(failure.message)"))
            }
        }
    }
}

extension DocumentRoute {
    fileprivate static let rejected = "rejected: "

    /// Whether the function could not decide, as opposed to rejecting the document.
    var isFailed: Bool { !error.isEmpty && !error.utf8.starts(with: Self.rejected.utf8) }
}

extension PeerWriting {
    /// If a deletion ended the current revision, the leaf that becomes current gets its channels before the deletion is answered: peers with access
    /// find it at once.
    func routeSuccessors(_ writes: [Write], _ outcomes: [Outcome]) async throws {
        guard let function = peer.syncFunction else { return }
        var ended: [DocumentID: RevisionID] = [:]
        for (write, outcome) in zip(writes, outcomes) where write.isDeleted {
            if case .stored(let revision) = outcome { ended[write.id] = revision }
        }
        guard !ended.isEmpty else { return }
        let (collection, asked) = (collection, ended)
        let successors = try await peer.database.read { transaction in
            try asked.compactMap { id, revision -> PolicyDocument? in
                guard let current = try transaction.document(collection, id), current.revision != revision,
                    try transaction.routedRevision(collection, id) != current.revision
                else { return nil }
                return PolicyDocument(id: id, revision: current.revision, isDeleted: current.isDeleted, body: current.body)
            }
        }
        guard !successors.isEmpty else { return }
        let routes = await function.routes(of: successors, peer.policyContext(collection.name, .pull, remote: remote))
        try await peer.database.write { transaction in
            // A newer revision is assigned in its own turn.
            for (document, route) in routes where try transaction.document(collection, document.id)?.revision == document.revision {
                try transaction.route(collection, document.id, document.revision, route)
            }
            try transaction.signalChange(collection)
        }
    }
}
