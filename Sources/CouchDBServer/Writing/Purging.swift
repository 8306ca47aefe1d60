import Documents
import DocumentStore
import HTTPServer
import Interfaces

/// `_purge`: removes documents without leaving a trace, for users who may read and write everything.
enum Purging {
    static func answer(_ call: CouchCall) async throws -> HTTPResponse {
        try await call.requireUnrestrictedAccess("documents are purged only by users who are not limited by channels or a filter, or by the operator")
        let collection = call.collection
        var asked: [(DocumentID, [RevisionID])] = []
        for member in try await call.jsonObject().members {
            guard case .document(let id) = try CouchID(member.key), let list = member.value.asArray else {
                throw CouchError.badRequest("_purge expects an object of document ids, each with a list of revisions")
            }
            asked.append((id, try list.compactMap { try NamedRevision($0.asString ?? "").known }))
        }
        let documents = asked
        let purged = try await call.database.write { transaction in
            try documents.map { id, revisions -> [RevisionID] in
                let leaves = try transaction.tree(collection, id)?.leaves.map(\.revision) ?? []
                // A document is purged if all its leaves are named; to end a single branch, delete it, so that peers learn of
                // it.
                guard !leaves.isEmpty, leaves.allSatisfy({ revisions.contains($0) }) else { return [] }
                try transaction.purge(collection, id)
                return leaves
            }
        }
        var text = JSONWriter()
        text.raw("{\"purge_seq\":null,\"purged\":{")
        text.list(zip(documents, purged)) { text, each in
            text.string(each.0.0.text)
            text.raw(":")
            text.strings(each.1.map(\.text))
        }
        text.raw("}}")
        return .couch(201, text)
    }
}
