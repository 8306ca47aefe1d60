import Documents
import HTTPServer

/// `/api`: lists the routes, for people who explore the API; `/api/openapi.json` has the same for programs.
struct AdminIndex: Sendable {
    /// All routes, including these two.
    private let routes: [Route]

    init(_ routes: [Route]) { self.routes = routes + Self.own { _ in .error(status: 500, error: "failed", reason: "") } }

    var responders: [Route] {
        let (list, description) = (Self.list(routes), Self.openAPI(routes))
        return Self.own { request in Answer.json(request.path.hasSuffix(".json") ? description : list) }
    }

    private static func own(_ respond: @escaping HTTPListener.Responder) -> [Route] { [.get("api", respond), .get("api/openapi.json", respond)] }

    /// All but the dashboard's files.
    private static func shown(_ routes: [Route]) -> [Route] {
        routes.filter { !$0.pattern.isEmpty && !$0.pattern.hasPrefix("dashboard/") }.sorted { ($0.pattern, $0.method) < ($1.pattern, $1.method) }
    }

    private static func list(_ routes: [Route]) -> JSONValue {
        .array(
            shown(routes).map { route in
                JSONOutput.object([
                    "method": .string(route.method), "path": .string("/\(route.pattern)"),
                    "role": .string(AdminRole.needed(route.method, route.pattern).rawValue), "what": .string(AdminRouteSummaries.of(route)),
                ])
            })
    }

    private static func openAPI(_ routes: [Route]) -> JSONValue {
        var paths: [(path: String, methods: [JSONObject.Member])] = []
        for route in shown(routes) {
            let parts = route.pattern.split(separator: "/")
            let path = "/" + parts.map { $0.first == ":" || $0.first == "*" ? "{\($0.dropFirst())}" : String($0) }.joined(separator: "/")
            let places = parts.filter { $0.first == ":" || $0.first == "*" }.map { part in
                JSONOutput.object([
                    "name": .string(String(part.dropFirst())), "in": .string("path"), "required": .bool(true),
                    "schema": JSONOutput.object(["type": .string("string")]),
                ])
            }
            let queries = AdminQuery.values(of: route).map { query($0.rawValue, ["type": .string("string")]) }
                + AdminQuery.flags(of: route).map { query($0.rawValue, ["type": .string("boolean"), "default": .bool(false)]) }
            let operation = JSONOutput.object([
                "summary": .string(AdminRouteSummaries.of(route)), "parameters": .array(places + queries),
                "x-role": .string(AdminRole.needed(route.method, route.pattern).rawValue),
                "responses": JSONOutput.object(["default": JSONOutput.object(["description": .string("the answer, or error and reason")])]),
            ])
            let member = JSONObject.Member(key: route.method.lowercased(), value: operation)
            if paths.last?.path == path { paths[paths.count - 1].methods.append(member) } else { paths.append((path, [member])) }
        }
        return JSONOutput.object([
            "openapi": .string("3.1.0"),
            "info": JSONOutput.object(["title": .string("Nightjar's admin API"), "version": .string(AgentVersion.number)]),
            "components": JSONOutput.object([
                "securitySchemes": JSONOutput.object([
                    "token": JSONOutput.object(["type": .string("http"), "scheme": .string("bearer")])
                ])
            ]),
            "security": .array([JSONOutput.object(["token": .array([])])]),
            "paths": .object(JSONObject(paths.map { .init(key: $0.path, value: .object(JSONObject($0.methods))) })),
        ])
    }

    private static func query(_ name: String, _ schema: KeyValuePairs<String, JSONValue?>) -> JSONValue {
        JSONOutput.object([
            "name": .string(name), "in": .string("query"), "required": .bool(false), "schema": JSONOutput.object(schema),
        ])
    }
}
