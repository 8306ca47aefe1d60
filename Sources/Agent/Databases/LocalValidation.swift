import Documents
import DocumentStore
import Interfaces
import Replication

/// Asks a sync function about local writes, as a listener asks it about peers' pushes. If it throws, the write is refused; the channels that it
/// assigns matter only to listeners.
package struct LocalValidation: Sendable {
    /// A write to be judged.
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

    /// For each write, in order, why it is refused; nil if it is not.
    package func refusals(_ writes: [Write]) async throws -> [AgentError?] {
        await refusals(writes, over: try await stored(writes.map(\.id)))
    }

    /// What the writes would replace.
    func stored(_ ids: [DocumentID]) async throws -> [StoredDocument?] {
        try await database.read { [collection] transaction in try ids.map { try transaction.document(collection, $0) } }
    }

    /// For each write, in order, why it is refused given what is stored; nil if it is not. No two writes may concern the same document. An operator
    /// has full access to the database, so the function is called without a user, and its `require_` functions pass.
    func refusals(_ writes: [Write], over stored: [StoredDocument?]) async -> [AgentError?] {
        await Self.refusals(writes, over: stored, .save(database.name, collection.name), by: function)
    }

    /// Why the first document of a database or collection is refused that does not exist yet; nil if it is not.
    package static func refusal(ofFirst write: Write, database: String, _ collection: CollectionName, by function: any SyncFunction) async -> AgentError? {
        await refusals([write], over: [nil], .save(database, collection), by: function)[0]
    }

    private static func refusals(
        _ writes: [Write], over stored: [StoredDocument?], _ context: PolicyContext, by function: any SyncFunction
    ) async -> [AgentError?] {
        let requests = zip(writes, stored).map { write, stored in
            let canonical = (try? CanonicalJSON.bytes(of: write.body)) ?? write.body
            let revision = RevisionDigest.revision(parent: stored?.revision, deleted: write.isDeleted, canonicalBody: canonical)
            let old = stored.flatMap {
                $0.isDeleted ? nil : PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: false, body: $0.body)
            }
            return SyncRequest(
                document: PolicyDocument(id: write.id, revision: revision, isDeleted: write.isDeleted, body: write.body), old: old, caller: .admin)
        }
        let verdicts = await function.assign(requests, context)
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
