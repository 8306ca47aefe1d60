import Documents
import DocumentStore
import Interfaces
import Replication

/// Asks a sync function about what is written here, as a listener asks it about what peers push. What it throws refuses the write; the
/// channels that it assigns are a listener's matter.
package struct LocalValidation: Sendable {
    /// A write that is asked about.
    package struct Write: Sendable {
        var id: DocumentID
        var isDeleted: Bool
        var body: [UInt8]

        package init(id: DocumentID, isDeleted: Bool, body: [UInt8]) { (self.id, self.isDeleted, self.body) = (id, isDeleted, body) }
    }

    let database: Database
    let collection: Collection
    let function: any SyncFunction

    package init(_ database: Database, _ collection: Collection, _ function: any SyncFunction) {
        (self.database, self.collection, self.function) = (database, collection, function)
    }

    /// For each write, in their order, why it is refused; nil where it is not.
    package func refusals(_ writes: [Write]) async throws -> [AgentError?] {
        await refusals(writes, over: try await stored(writes.map(\.id)))
    }

    /// What the writes are about to replace.
    func stored(_ ids: [DocumentID]) async throws -> [StoredDocument?] {
        try await database.read { [collection] transaction in try ids.map { try transaction.document(collection, $0) } }
    }

    /// For each write, in their order, why it is refused over what is stored; nil where it is not. No two are of one document. Nobody stands
    /// between the operator and the database, so the function is called without a user, and its `require_` functions pass.
    func refusals(_ writes: [Write], over stored: [StoredDocument?]) async -> [AgentError?] {
        let requests = zip(writes, stored).map { write, stored in
            let canonical = (try? CanonicalJSON.bytes(of: write.body)) ?? write.body
            let revision = RevisionDigest.revision(parent: stored?.revision, deleted: write.isDeleted, canonicalBody: canonical)
            let old = stored.flatMap {
                $0.isDeleted ? nil : PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: false, body: $0.body)
            }
            return SyncRequest(
                document: PolicyDocument(id: write.id, revision: revision, isDeleted: write.isDeleted, body: write.body), old: old, caller: .admin)
        }
        let verdicts = await function.assign(requests, .save(database.name, collection.name))
        return writes.indices.map { index in
            switch index < verdicts.count ? verdicts[index] : function.missingVerdict {
            case .accepted: nil
            case .rejected(let reason):
                AgentError(.forbidden, "document \"\(writes[index].id)\" is refused by the plugin \(function.pluginName) (validate): \(reason)")
            case .failed(let failure):
                AgentError(
                    .notNow,
                    "document \"\(writes[index].id)\" is not saved: the plugin \(failure.plugin) (validate) has failed: \(failure.kind): \(failure.message)")
            }
        }
    }
}
