import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Synchronization

/// CouchDB's HTTP API for a listener's databases: used by PouchDB, CouchDB's replicator and client libraries.
package struct CouchServer: Sendable {
    private let router: Router

    package init(_ host: CouchHost) {
        let routes = Self.serverRoutes(host) + Self.databaseRoutes(host) + Self.documentRoutes(host)
        // The description includes itself.
        let described = routes + [Self.description { _ in .couch(200, [:]) }]
        let text = DescriptionText(described, version: host.version)
        router = Router(routes + [Self.description { _ in .json(status: 200, text.bytes) }])
    }

    private static func description(_ respond: @escaping HTTPListener.Responder) -> Route { .get("/_openapi.json", respond) }

    /// - Throws: ``HTTPError`` in CouchDB's form.
    package func respond(to request: HTTPRequest) async throws -> HTTPResponse {
        do {
            return try await router.respond(to: request)
        } catch let error as CancellationError {
            throw error
        } catch { throw HTTPError(couch: error) }
    }

    // MARK: - Server

    private static func serverRoutes(_ host: CouchHost) -> [Route] {
        [
            // No authentication: clients ask here first, some with headers that are not credentials.
            .get("/") { _ in
                .couch(200, [
                    "couchdb": "Welcome", "version": .string(host.version), "uuid": .string(host.uuid), "features": [],
                    "vendor": ["name": "Nightjar", "version": .string(host.version)],
                ])
            },
            .get("/_up") { _ in .couch(200, ["status": "ok", "seeds": [:]]) },
            .get("/_uuids") { request in
                let count = try CouchQuery(request.query).number("count") ?? 1
                guard count <= CouchLimits.uuids else {
                    throw HTTPError(403, "count parameter too large: couchdb_uuids is \(CouchLimits.uuids)")
                }
                let ids = (0..<count).map { _ in JSONValue.string(Hex.encode(host.environment.random.bytes(16))) }
                return .couch(200, ["uuids": .array(ids)], headers: ["Cache-Control": "no-cache"])
            },
            .get("/_all_dbs") { request in
                _ = try await host.authenticate(request)
                return try DatabaseRoutes.list(host.databases, CouchQuery(request.query))
            },
            .get("/_dbs_info") { try await DatabaseRoutes.allInformation(host, $0) },
            Route("POST", "/_dbs_info", bodyLimit: CouchCall.findLimit) { try await DatabaseRoutes.namedInformation(host, $0) },
            .get("/_session") { try await host.session($0) },
            Route("POST", "/_session", bodyLimit: NamedLimit("couchdb_login_bytes", CouchLimits.loginBytes)) { try await host.session($0) },
            Route("DELETE", "/_session") { try await host.session($0) },
        ]
    }

    // MARK: - Databases

    private static func databaseRoutes(_ host: CouchHost) -> [Route] {
        func route(
            _ method: String, _ pattern: String, _ limit: NamedLimit = CouchCall.listLimit,
            _ body: @escaping @Sendable (CouchCall) async throws -> HTTPResponse
        ) -> Route {
            Route(method, "/:db" + pattern, bodyLimit: limit, takesGzip: true) { try await answer(host, $0, body) }
        }
        let routes = [
            route("GET", "") { try await DatabaseRoutes.information($0) },
            route("POST", "", CouchCall.batchLimit) { try await DocumentRoutes.post($0) },
            Route("PUT", "/:db") { try await DatabaseRoutes.create(host, $0) },
            route("DELETE", "") { _ in throw CouchError.forbidden("databases are made and removed in the agent's configuration") },
            route("POST", "/_bulk_docs", CouchCall.batchLimit) { try await BulkRoutes.bulkDocs($0) },
            route("POST", "/_bulk_get") { try await BulkGet.answer($0) },
            route("POST", "/_revs_diff") { try await BulkRoutes.revisionsDifference($0) },
            route("POST", "/_missing_revs") { try await BulkRoutes.missingRevisions($0) },
            route("GET", "/_changes") { try await ChangesFeed.answer($0) },
            route("POST", "/_changes") { try await ChangesFeed.answer($0) },
            route("GET", "/_all_docs") { try await AllDocuments.answer($0) },
            route("POST", "/_all_docs") { try await AllDocuments.answer($0) },
            route("POST", "/_all_docs/queries") { try await AllDocuments.queries($0) },
            route("GET", "/_design_docs") { try await DesignDocumentList.answer($0) },
            route("POST", "/_design_docs") { try await DesignDocumentList.answer($0) },
            route("POST", "/_design_docs/queries") { try await DesignDocumentList.queries($0) },
            route("GET", "/_local_docs") { try await LocalDocumentList.answer($0) },
            route("POST", "/_local_docs") { try await LocalDocumentList.answer($0) },
            route("POST", "/_local_docs/queries") { try await LocalDocumentList.queries($0) },
            route("POST", "/_purge") { try await Purging.answer($0) },
            route("POST", "/_ensure_full_commit") { _ in .couch(201, ["ok": true, "instance_start_time": "0"]) },
            route("GET", "/_security") { _ in
                // The same as for a database without configured permissions: access is decided elsewhere.
                .couch(200, ["admins": [:], "members": [:]])
            },
            route("PUT", "/_security") { _ in throw CouchError.forbidden("permissions are set in the agent's configuration") },
            route("GET", "/_revs_limit") { _ in .couch(200, .int(StoreLimits.historyDepth)) },
            route("PUT", "/_revs_limit") { _ in throw CouchError.forbidden("how much history is kept is in the agent's configuration") },
            route("POST", "/_compact") { _ in .couch(202, ["ok": true]) },
            route("POST", "/_compact/:ddoc") { try await DesignDocuments.compact($0) },
            route("POST", "/_temp_view") { _ in throw HTTPError(410, "Temporary views are not supported in CouchDB", error: "gone") },
            // There are no views, so no indexes can be left over.
            route("POST", "/_view_cleanup") { _ in .couch(202, ["ok": true]) },
        ]
        let partitioned = ["GET", "POST"].map { route($0, "/_partition/*rest") { _ in throw CouchError.badRequest("database is not partitioned") } }
        return routes + partitioned + queryRoutes(host)
    }

    // MARK: - Queries

    private static func queryRoutes(_ host: CouchHost) -> [Route] {
        func route(_ method: String, _ pattern: String, _ body: @escaping @Sendable (CouchCall) async throws -> HTTPResponse) -> Route {
            Route(method, "/:db" + pattern, bodyLimit: CouchCall.findLimit, takesGzip: true) { try await answer(host, $0, body) }
        }
        return [
            route("POST", "/_find") { try await FindAnswer.answer($0) },
            route("POST", "/_explain") { try await ExplainAnswer.answer($0) },
            route("GET", "/_index") { try await IndexRoutes.list($0) },
            route("POST", "/_index") { try await IndexRoutes.create($0) },
            route("POST", "/_index/_bulk_delete") { try await IndexRoutes.bulkDelete($0) },
            route("DELETE", "/_index/:ddoc/json/:name") { try await IndexRoutes.delete($0) },
            route("DELETE", "/_index/_design/:ddoc/json/:name") { try await IndexRoutes.delete($0) },
        ]
    }

    private static func documentRoutes(_ host: CouchHost) -> [Route] {
        typealias Body = @Sendable (CouchCall, String) async throws -> HTTPResponse
        typealias Attached = @Sendable (CouchCall, String, String) async throws -> HTTPResponse
        var routes: [Route] = []
        func document(_ method: String, _ body: @escaping Body) {
            routes.append(Route(method, "/:db/:doc", bodyLimit: .unlimited, takesGzip: true) { request in
                try await answer(host, request) { try await body($0, try request.parameters.require("doc")) }
            })
            for prefix in ["_design", "_local"] {
                routes.append(
                    Route(method, "/:db/\(prefix)/:doc", bodyLimit: .unlimited, takesGzip: true) { request in
                        try await answer(host, request) { try await body($0, "\(prefix)/\(try request.parameters.require("doc"))") }
                    })
            }
        }
        func attached(_ method: String, _ body: @escaping Attached) {
            routes.append(
                Route(method, "/:db/:doc/*name", bodyLimit: .unlimited, takesGzip: true) { request in
                    try await answer(host, request) { try await body($0, try request.parameters.require("doc"), try request.parameters.require("name")) }
                })
        }
        document("GET") { try await DocumentRoutes.get($0, $1) }
        document("PUT") { call, id in try await call.telling(id) { try await DocumentRoutes.put(call, id) } }
        document("DELETE") { try await DocumentRoutes.delete($0, $1) }
        document("COPY") { try await DocumentRoutes.copy($0, $1) }
        attached("GET") { try await AttachmentRoutes.get($0, $1, $2) }
        attached("PUT") { call, id, name in try await call.telling(id) { try await AttachmentRoutes.put(call, id, name) } }
        attached("DELETE") { try await AttachmentRoutes.delete($0, $1, $2) }
        for method in ["GET", "POST", "PUT", "DELETE"] {
            routes.append(
                Route(method, "/:db/_design/:doc/*rest", bodyLimit: CouchCall.listLimit, takesGzip: true) { request in
                    let call = try await call(host, request)
                    let rest = try request.parameters.require("rest").utf8.split(separator: UInt8(ascii: "/")).map { String(Substring($0)) }
                    let (kind, name) = rest.first == "_view" && rest.count > 1 ? ("views", rest[1]) : ("", "")
                    throw try await DesignDocuments(call: call).refusal(try request.parameters.require("doc"), kind, name) { _ in
                        kind.isEmpty ? CouchError.notServedHere("what design documents hold (lists, attachments)") : CouchError.missing("missing_named_view")
                    }
                })
        }
        return routes
    }

    /// Answers a client that was let in, for as long as it may stay.
    private static func answer(_ host: CouchHost, _ request: HTTPRequest, _ body: (CouchCall) async throws -> HTTPResponse) async throws -> HTTPResponse {
        let call = try await call(host, request)
        var response: HTTPResponse
        do { response = try await body(call) } catch {
            await call.database.settle(call.arrived)
            throw error
        }
        await call.database.settle(call.arrived)
        guard case .stream(let length, let produce) = response.body else { return response }
        let (admission, cut) = (call.admission, request.connection.cut)
        let bounded: @Sendable (ResponseBodyWriter) async throws -> Void = { writer in
            guard admission.send(cut: cut) else { throw CancellationError() }
            defer { _ = admission.send(cut: nil) }
            try await produce(writer)
        }
        response.body = .stream(length: length, bounded)
        return response
    }

    /// Determines the caller, the database and the collection.
    private static func call(_ host: CouchHost, _ request: HTTPRequest) async throws -> CouchCall {
        try await call(host, request, try request.parameters.require("db")) { try await host.admit(request, $0) }
    }

    /// - Parameter admit: ``CouchHost/admit``, or ``CouchHost/Authenticated/admit`` of a client whose request names several databases.
    /// - Throws: ``HTTPError`` as `admit`; 404 also for a collection that the caller may not access.
    static func call(
        _ host: CouchHost, _ request: HTTPRequest, _ name: String, admit: (_ database: String) async throws -> CouchHost.Admitted
    ) async throws -> CouchCall {
        let query = try CouchQuery(request.query)
        let (database, collection) = try Self.split(name, host.databases)
        let admitted = try await admit(database)
        guard admitted.peer.mayUse(collection), let found = admitted.peer.database.collection(collection) else { throw CouchError.noDatabase() }
        await admitted.peer.database.noteBranchKeeper()
        return CouchCall(host: host, request: request, query: query, peer: admitted.peer.of(found.name), collection: found, admission: admitted.admission,
            answer: host.memory.answer(of: request.connection.origin, cut: request.connection.cut))
    }

    /// A database's name stands for its default collection; other collections are named `DATABASE.SCOPE.COLLECTION`.
    private static func split(_ name: String, _ databases: [String]) throws(HTTPError) -> (String, CollectionName) {
        if databases.contains(where: { $0.utf8.elementsEqual(name.utf8) }) { return (name, .default) }
        for database in databases where name.utf8.starts(with: "\(database).".utf8) {
            guard let collection = try? CollectionName(parsing: name.dropFirst(database.count + 1)) else { throw CouchError.noDatabase() }
            return (database, collection)
        }
        return (name, .default)
    }
}

/// The description as text, created once on the first request, because anybody may ask repeatedly.
private final class DescriptionText: Sendable {
    private let made = Mutex<ByteBuffer?>(nil)
    private let routes: [Route]
    private let version: String

    init(_ routes: [Route], version: String) { (self.routes, self.version) = (routes, version) }

    var bytes: ByteBuffer {
        made.withLock { made in
            if let made { return made }
            let text = ByteBuffer(bytes: OpenAPI.document(routes, version: version).serialize() + [0x0A])
            made = text
            return text
        }
    }
}
