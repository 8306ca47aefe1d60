import Digests
import Documents
import DocumentStore
import Encodings
import HTTPServer
import Selectors

/// `_index`: lists, creates and removes indexes.
enum IndexRoutes {
    /// Used when no index is suitable.
    static let allDocuments: JSONValue = ["ddoc": nil, "name": "_all_docs", "type": "special", "def": ["fields": [["_id": "asc"]]]]

    static func shown(_ index: FieldIndex) -> JSONValue {
        ["ddoc": .string(index.design), "name": .string(index.name), "type": "json", "partitioned": false, "def": index.definition.json]
    }

    static func list(_ call: CouchCall) async throws -> HTTPResponse {
        let collection = call.collection
        let (skip, limit) = (try call.query.number("skip") ?? 0, try call.query.number("limit") ?? .max)
        let text = try await call.answer.reading(CouchLimits.pageBytes) {
            let indexes = try await call.database.read { try $0.fieldIndexes(collection) }
            if indexes.contains(where: { !$0.isReady }) { tend(call) }
            let all = [allDocuments] + indexes.map(shown)
            var text = JSONWriter()
            text.value(["total_rows": .int(all.count), "indexes": .array(Array(all.dropFirst(skip).prefix(limit)))])
            return (text, bytes: text.bytes.count)
        }
        return .couch(text, call.database.blobs, keeping: call.answer)
    }

    // MARK: - Creating

    static func create(_ call: CouchCall) async throws -> HTTPResponse {
        try await requireIndexRights(call)
        let object = try await call.jsonObject(CouchCall.findLimit)
        var definition: IndexDefinition?
        var names = IndexNames()
        for member in object.members {
            switch member.key {
            case "index": definition = try IndexDefinition(member.value)
            case "name": names.name = try text(member.value)
            case "ddoc": names.design = IndexNames.design(try text(member.value))
            case "type":
                guard member.value.asString == "json" else {
                    throw CouchError.query("invalid_index", "Invalid type for index: \(member.value.text); only \"json\" is supported here")
                }
            case "partitioned":
                guard member.value.asBool == false else { throw CouchError.notServedHere("a partitioned index") }
            case "w": break
            default: throw CouchError.query("invalid_key", "Invalid key \(JSONValue.string(member.key).text) for this request.")
            }
        }
        guard let definition else { throw CouchError.query("missing_required_key", "Missing required key: index") }
        let size = definition.json.serialize().count
        guard size <= CouchLimits.indexBytes else {
            throw HTTPError(413, "the index's definition has \(size) bytes, more than couchdb_index_bytes (\(CouchLimits.indexBytes)) allows")
        }
        let (design, name) = names.complete(definition)
        let collection = call.collection
        try await checkLanguage(call, design)
        let isNew = try await call.database.write { try $0.createIndex(collection, design: design, name: name, definition) }
        try await build(call, design, name)
        return .couch(200, ["result": isNew ? "created" : "exists", "id": .string(design), "name": .string(name)])
    }

    /// A design document that a client stored cannot contain indexes.
    private static func checkLanguage(_ call: CouchCall, _ design: String) async throws {
        guard let stored = try await DesignDocuments(call: call).get(design), !stored.isDeleted else { return }
        let parts = JSONParts(checked: stored.json)
        let language = parts.member("language", of: parts.root).flatMap { parts.string($0) }
        guard language == "query" else {
            throw CouchError.query("invalid_ddoc_lang", "Existing design doc has an invalid language: \(language ?? "none")")
        }
    }

    private static func text(_ value: JSONValue) throws(HTTPError) -> String {
        guard let text = value.asString else { throw CouchError.query("invalid_string", "Invalid string: \(value.text)") }
        guard !text.utf8.isEmpty else { throw CouchError.query("invalid_empty_string", "Index name or ddoc cannot be empty string") }
        guard text.utf8.count <= CouchLimits.indexNameBytes else {
            throw CouchError.query("invalid_string", "the name has \(text.utf8.count) bytes, more than couchdb_index_name_bytes = \(CouchLimits.indexNameBytes)")
        }
        return text
    }

    /// An index affects everybody's writes, so it needs the same permission as a design document, of which it is a part in CouchDB.
    private static func requireIndexRights(_ call: CouchCall) async throws {
        try await call.requireUnrestrictedAccess(everyChannel: true, "indexes are made and removed only by users who may read everything and are not limited by a filter")
    }

    /// Starts pending work on indexes in the background.
    static func tend(_ call: CouchCall) {
        let (database, logger) = (call.database, call.host.logger)
        call.host.environment.task {
            do { try await database.maintainIndexes() } catch StoreError.closed {} catch {
                logger.warning("an index waits to be built: \(error)", metadata: ["database": "\(database.name)"])
            }
        }
    }

    /// Waits until the index can be used, but not for long: the rest of it is built in the background.
    private static func build(_ call: CouchCall, _ design: String, _ name: String) async throws {
        tend(call)
        let (collection, time) = (call.collection, call.host.environment.time)
        let start = time.monotonicNanoseconds()
        while time.monotonicNanoseconds() - start < CouchLimits.indexWait * 1_000_000 {
            let indexes = try await call.database.read { try $0.fieldIndexes(collection) }
            let index = indexes.first { $0.design.utf8.elementsEqual(design.utf8) && $0.name.utf8.elementsEqual(name.utf8) }
            if index?.isReady ?? true { return }
            try await time.sleep(nanoseconds: 20_000_000)
        }
    }

    // MARK: - Removing

    static func delete(_ call: CouchCall) async throws -> HTTPResponse {
        try await requireIndexRights(call)
        let design = IndexNames.design(try call.request.parameters.require("ddoc"))
        let (name, collection) = (try call.request.parameters.require("name"), call.collection)
        guard try await call.database.write({ try $0.dropIndex(collection, design: design, name: name) }) else { throw CouchError.missing() }
        tend(call)
        return .couch(200, ["ok": true])
    }

    /// Removes all indexes of each design document.
    static func bulkDelete(_ call: CouchCall) async throws -> HTTPResponse {
        try await requireIndexRights(call)
        let object = try await call.jsonObject(CouchCall.findLimit)
        guard let items = object["docids"]?.asArray else { throw CouchError.query("missing_required_key", "Missing required key: docids") }
        let designs = items.compactMap(\.asString)
        guard designs.count == items.count, designs.count <= CouchLimits.queries else {
            throw CouchError.query("invalid_bulk_docs", "Bulk Delete requires an array of at most couchdb_queries (\(CouchLimits.queries)) non-null docids.")
        }
        var (success, fail): ([JSONValue], [JSONValue]) = ([], [])
        let collection = call.collection
        for text in designs {
            let design = IndexNames.design(text)
            let isGone = try await call.database.write { transaction in
                var isGone = false
                for index in try transaction.fieldIndexes(collection) where index.design.utf8.elementsEqual(design.utf8) {
                    isGone = try transaction.dropIndex(collection, design: design, name: index.name) || isGone
                }
                return isGone
            }
            if isGone { success.append(["id": .string(design), "ok": true]) } else { fail.append(["id": .string(design), "error": "not_found"]) }
        }
        tend(call)
        return .couch(200, ["success": .array(success), "fail": .array(fail)])
    }
}

/// The two names of an index: that of its design document, and its own within that.
struct IndexNames {
    var design: String?
    var name: String?

    static func design(_ text: String) -> String { text.utf8.starts(with: "_design/".utf8) ? text : "_design/\(text)" }

    /// Missing names are derived from the definition, so that the same index is not created twice. The same definition with another name is a
    /// different index.
    func complete(_ definition: IndexDefinition) -> (design: String, name: String) {
        let digest = Hex.encode(SHA1.hash(definition.json.canonicalBytes() + Array((name ?? "").utf8)))
        return (design ?? "_design/\(digest)", name ?? digest)
    }
}
