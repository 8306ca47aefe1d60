import Documents
import Encodings
import HTTPServer

/// `/_openapi.json`: describes this implementation of CouchDB's API for programs (OpenAPI 3.1).
enum OpenAPI {
    private struct Place: Hashable, Comparable {
        var method: String
        var pattern: String

        static func < (left: Place, right: Place) -> Bool { (left.pattern, left.method) < (right.pattern, right.method) }
    }

    /// - Parameter routes: all routes of the router.
    static func document(_ routes: [Route], version: String) -> JSONValue {
        var paths = JSONObject()
        // Also shows descriptions without a route, so that a test which requests every path finds them.
        let described = RouteDescription.all.keys.compactMap { key in
            key.firstIndex(of: " ").map { Place(method: String(key[..<$0]), pattern: String(key[key.index(after: $0)...])) }
        }
        for place in Set(routes.map { Place(method: $0.method, pattern: $0.pattern) } + described).sorted() {
            let path = path(place.pattern)
            var item = paths[path]?.asObject ?? JSONObject()
            // OpenAPI has no place for non-standard methods.
            let key = standardMethods.contains(place.method) ? place.method.lowercased() : "x-\(place.method.lowercased())"
            item[key] = operation(place)
            paths[path] = .object(item)
        }
        return [
            "openapi": "3.1.0",
            "info": [
                "title": "CouchDB's API of Nightjar", "version": .string(version),
                "description": """
                    What PouchDB, CouchDB's replicator and client libraries need of CouchDB 3. GET also answers HEAD. Another collection than the default one \
                    is DATABASE.SCOPE.COLLECTION. What a user may not see is answered like what is not there.
                    """,
            ],
            "servers": [["url": "/"]],
            "security": [["password": []], ["cookie": []]],
            "paths": .object(paths),
            "components": [
                "securitySchemes": [
                    "password": ["type": "http", "scheme": "basic"],
                    "cookie": ["type": "apiKey", "in": "cookie", "name": "AuthSession", "description": "Of POST /_session."],
                ],
                "schemas": Schemas.all,
                "responses": [
                    "Problem": ["description": "The request was not done: error is a word for programs, reason is for people.", "content": json("Problem")]
                ],
            ],
        ]
    }

    private static let standardMethods: Set<String> = ["GET", "PUT", "POST", "DELETE"]

    /// Turns `/:db/:doc/*name` into `/{db}/{doc}/{name}`.
    static func path(_ pattern: String) -> String {
        "/" + pattern.split(separator: "/").map { $0.first == ":" || $0.first == "*" ? "{\($0.dropFirst())}" : String($0) }.joined(separator: "/")
    }

    private static func json(_ schema: String) -> JSONValue { ["application/json": ["schema": ["$ref": .string("#/components/schemas/\(schema)")]]] }

    private static func operation(_ route: Place) -> JSONValue {
        var operation = JSONObject()
        let key = "\(route.method) \(route.pattern)"
        guard let known = RouteDescription.all[key] else { return ["responses": ["default": ["$ref": "#/components/responses/Problem"]]] }
        operation["summary"] = .string(known.summary)
        operation["operationId"] = .string(name(route))
        let parameters = self.parameters(route, known)
        if !parameters.isEmpty { operation["parameters"] = .array(parameters) }
        if let body = known.body { operation["requestBody"] = ["required": .bool(!known.isBodyOptional), "content": content(of: body)] }
        if known.isOpen { operation["security"] = [] }
        operation["responses"] = responses(known)
        return .object(operation)
    }

    /// An operation name such as `get_db_doc_name`.
    private static func name(_ route: Place) -> String {
        let parts = route.pattern.split(separator: "/").map { part in String(part.drop { $0 == ":" || $0 == "*" || $0 == "_" }.map { $0 == "." ? "_" : $0 }) }
        let isFixed = route.pattern.holds("/_design/") ? "_of_design" : ""
        return ([route.method.lowercased()] + parts).joined(separator: "_") + isFixed
    }

    private static func parameters(_ route: Place, _ known: RouteDescription) -> [JSONValue] {
        let path = route.pattern.split(separator: "/").filter { $0.first == ":" || $0.first == "*" }.map { part -> JSONValue in
            var words: JSONObject = JSONObject([
                .init(key: "name", value: .string(String(part.dropFirst()))), .init(key: "in", value: "path"), .init(key: "required", value: true),
                .init(key: "schema", value: ["type": "string", "minLength": 1]),
            ])
            if part.first == "*" { words["description"] = "May contain slashes." }
            return .object(words)
        }
        let query = known.parameters.map { name -> JSONValue in ["name": .string(name), "in": "query", "schema": Schemas.parameter(name)] }
        let headers = known.headers.map { name -> JSONValue in ["name": .string(name), "in": "header", "schema": ["type": "string"]] }
        return path + query + headers
    }

    private static func content(of body: RouteDescription.Body) -> JSONValue {
        switch body {
        case .json(let schema): json(schema)
        case .bytes: ["*/*": [:]]
        case .document:
            ["application/json": ["schema": ["$ref": "#/components/schemas/Document"]], "multipart/related": ["schema": ["type": "object"]]]
        case .login:
            [
                "application/x-www-form-urlencoded": ["schema": ["$ref": "#/components/schemas/Login"]],
                "application/json": ["schema": ["$ref": "#/components/schemas/Login"]],
            ]
        }
    }

    private static func content(of answer: RouteDescription.Answer) -> JSONValue {
        switch answer {
        case .json(let schema): json(schema)
        case .bytes: ["*/*": [:]]
        case .parts:
            [
                "application/json": ["schema": ["$ref": "#/components/schemas/Object"]], "multipart/mixed": ["schema": ["type": "string"]],
                "multipart/related": ["schema": ["type": "string"]],
            ]
        case .feed:
            ["application/json": ["schema": ["$ref": "#/components/schemas/Changes"]], "text/event-stream": ["schema": ["type": "string"]]]
        }
    }

    private static func responses(_ known: RouteDescription) -> JSONValue {
        var responses = JSONObject()
        for status in known.success {
            var response = JSONObject()
            response["description"] = .string(words[status] ?? "Done.")
            if status != 304 { response["content"] = content(of: known.answer) }
            responses["\(status)"] = .object(response)
        }
        for status in Set(known.commonErrors + known.errors).sorted() { responses["\(status)"] = ["$ref": "#/components/responses/Problem"] }
        responses["default"] = ["$ref": "#/components/responses/Problem"]
        return .object(responses)
    }

    private static let words = [
        200: "Done.", 201: "Saved, and on the disk.", 202: "Taken.", 206: "The part that Range names.", 304: "The client has it.",
    ]
}
