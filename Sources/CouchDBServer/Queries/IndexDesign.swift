import Documents
import DocumentStore

/// CouchDB keeps indexes in design documents, which clients read to see what they created. Here such documents are generated from the indexes on
/// request. Nobody can edit them, so each is a first revision.
enum IndexDesign {
    /// Nil if there is no index with that name.
    static func get(_ id: String, _ call: CouchCall) async throws -> DesignDocuments.Stored? {
        try document(id, try await indexes(call).filter { $0.design.utf8.elementsEqual(id.utf8) })
    }

    static func all(_ call: CouchCall) async throws -> [DesignDocuments.Entry] {
        try await call.answer.reading(CouchLimits.pageBytes) {
            let indexes = try await indexes(call)
            var seen: Set<[UInt8]> = []
            let all = try indexes.map(\.design).filter { seen.insert(Array($0.utf8)).inserted }.compactMap { id in
                try document(id, indexes.filter { $0.design.utf8.elementsEqual(id.utf8) }).map { DesignDocuments.Entry(id: id, revision: $0.revision) }
            }
            return (all, bytes: 0)
        }
    }

    private static func indexes(_ call: CouchCall) async throws -> [FieldIndex] {
        let collection = call.collection
        return try await call.database.read { try $0.fieldIndexes(collection) }
    }

    private static func document(_ id: String, _ indexes: [FieldIndex]) throws -> DesignDocuments.Stored? {
        if indexes.isEmpty { return nil }
        let views = JSONValue.object(JSONObject(indexes.map { JSONObject.Member(key: $0.name, value: view($0.definition.json)) }))
        let body: JSONValue = ["language": "query", "views": views]
        let revision = RevisionDigest.revision(parent: nil, deleted: false, canonicalBody: body.canonicalBytes())
        let json: JSONValue = [
            "_id": .string(id), "_rev": .string(revision.text),
            "_revisions": ["start": .int(1), "ids": [.string(String(revision.digest))]], "language": "query", "views": views,
        ]
        return DesignDocuments.Stored(revision: revision, isDeleted: false, history: [revision], json: json.serialize())
    }

    private static func view(_ definition: JSONValue) -> JSONValue {
        // Each field is an object with one member: the field's name and its direction.
        let fields = (definition["fields"]?.asArray ?? []).compactMap { $0.asObject?.members.first }
        // CouchDB shows the definition as it was sent, which is usually a list of names.
        var sent = definition.asObject ?? JSONObject()
        if fields.allSatisfy({ $0.value == "asc" }) { sent["fields"] = .array(fields.map { .string($0.key) }) }
        return [
            "map": ["fields": .object(JSONObject(fields)), "partial_filter_selector": definition["partial_filter_selector"] ?? [:]],
            "reduce": "_count", "options": ["def": .object(sent)],
        ]
    }
}
