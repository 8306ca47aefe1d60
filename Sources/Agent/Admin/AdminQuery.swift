import AgentConfiguration
import HTTPServer

/// Queries of the admin API with a value of their own; those that are true or false are an ``AdminFlag``. All are read by
/// ``HTTPServer/HTTPRequest/value(_:)``.
enum AdminValue: String, CaseIterable {
    case after, before, collection, count, db, digest, document, lastEventID = "last_event_id", limit, onConflict = "on_conflict", prefix, replicator, rev, since, source,
        state, status, to

    /// The routes that read it, as ``AdminRouteSummaries`` names them.
    var routes: [String] {
        switch self {
        case .after, .source: ["POST api/databases/:db/import"]
        case .before, .state: ["GET api/conflicts"]
        case .collection: ["GET api/replicators/:name/pending/:id", "POST api/databases/:db/resync"]
        case .count: ["GET api/databases/:db/last"]
        case .db: ["GET api/conflicts", "GET api/conflicts/:id", "POST api/conflicts/:id/resolve", "POST api/rehearsal"]
        case .digest: ["POST api/databases/:db/blobs"]
        case .document: ["POST api/databases/:db/resync"]
        case .lastEventID, .replicator, .status: ["GET api/events"]
        case .limit: ["GET api/audit", "GET api/conflicts", "GET api/conflicts/:id", "GET api/databases/:db/find"]
        case .onConflict, .rev: ["DELETE api/databases/:db/documents/:id", "PUT api/databases/:db/documents/:id"]
        case .prefix, .since: ["GET api/databases/:db/find"]
        case .to: ["POST api/databases/:db/backup", "POST api/plugins/:name/rollback"]
        }
    }
}

extension HTTPRequest {
    /// The value of a query; nil if there is none.
    func value(_ value: AdminValue) throws(HTTPError) -> String? { try queryValue(value.rawValue) }
}

/// The query parameters that each route of the admin API has. Any other is refused: an option that is ignored because it is misspelt does the
/// opposite of what was meant, and `dryrun=true` would change what is stored.
enum AdminQuery {
    static func flags(of route: Route) -> [AdminFlag] { AdminFlag.allCases.filter { $0.routes.contains(name(route)) } }

    static func values(of route: Route) -> [AdminValue] { AdminValue.allCases.filter { $0.routes.contains(name(route)) } }

    /// The same routes, which look at the query before anything else.
    static func checked(_ routes: [Route]) -> [Route] {
        routes.map { route in
            let known = parameters(of: route)
            let respond = route.respond
            var checked = route
            checked.respond = { request in
                try check(request, known, name: "\(route.method) /\(route.pattern)")
                return try await respond(request)
            }
            return checked
        }
    }

    /// - Throws: ``HTTPError`` 400 naming the first query parameter that is not known, and those that are. It does not repeat the value, which may be a
    ///   secret in the wrong place.
    static func check(_ request: HTTPRequest, _ known: [String], name: String) throws(HTTPError) {
        for key in try request.queryKeys() where !known.contains(where: { $0.utf8.elementsEqual(key.utf8) }) {
            let shown = key.utf8.count > 60 ? "\(key.prefix(60))…" : key
            let nearest = NearestName.nearest(to: key, among: known).map { "; did you mean \($0)?" } ?? ""
            throw HTTPError(400, "\(name) has no query parameter \"\(shown)\"; it has \(known.isEmpty ? "none" : known.joined(separator: ", "))\(nearest)")
        }
    }

    static func parameters(of route: Route) -> [String] { (values(of: route).map(\.rawValue) + flags(of: route).map(\.rawValue)).sorted() }

    private static func name(_ route: Route) -> String { "\(route.method) \(route.pattern)" }
}
