import Documents
import DocumentStore
import HTTPServer
import Replication

/// Routes for whole databases.
enum DatabaseRoutes {
    static func information(_ call: CouchCall) async throws -> HTTPResponse { .couch(200, try await facts(call)) }

    private static func facts(_ call: CouchCall) async throws -> JSONValue {
        let collection = call.collection
        let statistics = try await call.database.statistics().first { $0.name == collection.name }
        // A client with restricted access must not learn how many documents there are that it may not see.
        let isBound = call.peer.channelPeer != nil || call.peer.pushFilter != nil
        let name = collection.name.isDefault ? call.database.name : "\(call.database.name).\(collection.name)"
        return [
            "db_name": .string(name), "doc_count": .int(isBound ? 0 : statistics?.documents ?? 0),
            "doc_del_count": .int(isBound ? 0 : statistics?.deleted ?? 0), "update_seq": .int(statistics?.lastSequence ?? 0),
            "purge_seq": 0, "compact_running": false, "disk_format_version": 8, "instance_start_time": "0",
            "sizes": ["file": .int(isBound ? 0 : call.database.sizeBytes()), "external": 0, "active": 0], "props": [:],
            "cluster": ["q": 1, "n": 1, "w": 1, "r": 1],
        ]
    }

    /// `_all_dbs`.
    static func list(_ names: [String], _ query: CouchQuery) throws -> HTTPResponse {
        .couch(200, .array(try shown(names, query).map { .string($0) }))
    }

    /// The names selected by the query parameters.
    private static func shown(_ names: [String], _ query: CouchQuery) throws -> ArraySlice<String> {
        let isDescending = try query.flag("descending")
        let (first, last) = (try query.json("startkey") ?? query.json("start_key"), try query.json("endkey") ?? query.json("end_key"))
        let includesEnd = try query.flag("inclusive_end", default: true)
        func precedes(_ a: String, _ b: String) -> Bool { isDescending ? b.utf8.lexicographicallyPrecedes(a.utf8) : a.utf8.lexicographicallyPrecedes(b.utf8) }
        let shown = names.sorted(by: precedes).filter { name in
            if let start = first?.asString, precedes(name, start) { return false }
            guard let end = last?.asString else { return true }
            return precedes(name, end) || includesEnd && name.utf8.elementsEqual(end.utf8)
        }
        return shown.dropFirst(try query.number("skip") ?? 0).prefix(try query.number("limit") ?? .max)
    }

    // MARK: - Information about several databases

    /// GET of `_dbs_info`: those of the databases listed by `_all_dbs` that the caller may access.
    static func allInformation(_ host: CouchHost, _ request: HTTPRequest) async throws -> HTTPResponse {
        let client = try await host.authenticate(request)
        var text = JSONWriter()
        text.raw("[")
        for name in try shown(host.databases, CouchQuery(request.query)) {
            guard let facts = try await facts(host, request, client, name) else { continue }
            text.raw(text.bytes.count > 1 ? ",{\"key\":" : "{\"key\":")
            text.string(name)
            text.raw(",\"info\":")
            text.value(facts)
            text.raw("}")
        }
        text.raw("]")
        return .couch(200, text)
    }

    /// POST of `_dbs_info`: the databases named in the body, in that order.
    static func namedInformation(_ host: CouchHost, _ request: HTTPRequest) async throws -> HTTPResponse {
        let client = try await host.authenticate(request)
        try request.checkJSONType()
        let parts: JSONParts
        do { parts = try JSONParts(checking: try await request.body.bytes()) } catch let error as JSONError { throw CouchError.invalidJSON(error) }
        guard parts.isObject(parts.root) else { throw CouchError.badRequest("Request body must be a JSON object") }
        guard let list = parts.member("keys", of: parts.root) else { throw CouchError.badRequest("`keys` member must exist.") }
        guard parts.isArray(list) else { throw CouchError.badRequest("`keys` member must be an array.") }
        guard let keys = parts.elements(of: list, atMost: CouchLimits.databases) else {
            throw CouchError.badRequest("too_many_keys: the request has more keys than couchdb_databases (\(CouchLimits.databases)) allows; ask for fewer at once")
        }
        var text = JSONWriter()
        text.raw("[")
        for key in keys {
            text.raw(text.bytes.count > 1 ? ",{\"key\":" : "{\"key\":")
            text.append(parts.bytes[key])
            if let name = parts.string(key), let facts = try await facts(host, request, client, name) {
                text.raw(",\"info\":")
                text.value(facts)
                text.raw("}")
            } else {
                text.raw(",\"error\":\"not_found\"}")
            }
        }
        text.raw("]")
        return .couch(200, text)
    }

    /// Nil for a database that does not exist, or that the caller may not access.
    private static func facts(_ host: CouchHost, _ request: HTTPRequest, _ client: CouchHost.Authenticated, _ name: String) async throws -> JSONValue? {
        do {
            return try await facts(CouchServer.call(host, request, name, admit: client.admit))
        } catch let error as HTTPError where error.status == 404 { return nil }
    }

    /// Databases are created in the configuration: an existing one is reported as such, others cannot be created here.
    static func create(_ host: CouchHost, _ request: HTTPRequest) async throws -> HTTPResponse {
        let name = try request.parameters.require("db")
        _ = try await host.authenticate(request)
        if host.databases.contains(where: { $0.utf8.elementsEqual(name.utf8) }) {
            throw HTTPError(412, "The database could not be created, the file already exists.", error: "file_exists")
        }
        throw CouchError.forbidden("databases are made in the agent's configuration; this listener has no \(JSONValue.string(name).text)")
    }
}
