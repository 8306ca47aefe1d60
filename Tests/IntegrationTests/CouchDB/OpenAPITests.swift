import Documents
import TestSupport
import Testing

@Suite("The description of CouchDB's API", .agent(Configuration.hub(listener: "couchdb: true"), files: [:]))
struct OpenAPITests {
    private struct Operation {
        var method: String
        var path: String
        var content: JSONValue
    }

    private func operations() async throws -> [Operation] {
        let document = try await CouchHTTP(sharedAgent()).ok("GET", "/_openapi.json")
        #expect(document["openapi"]?.asString == "3.1.0")
        return (document["paths"]?.asObject?.members ?? []).flatMap { path in
            (path.value.asObject?.members ?? []).map { method in
                Operation(method: String(method.key.hasPrefix("x-") ? method.key.dropFirst(2) : method.key[...]).uppercased(), path: path.key, content: method.value)
            }
        }
    }

    @Test("has each route of the router with words of its own, and no route that the router has not")
    func routes() async throws {
        let couch = try CouchHTTP(sharedAgent())
        let operations = try await operations()
        #expect(operations.count > 50)
        for operation in operations {
            let name = "\(operation.method) \(operation.path)"
            #expect((operation.content["summary"]?.asString?.utf8.count ?? 0) > 5, "RouteDescription lacks \(name)")
            var target = operation.path
            for (parameter, value) in [("{db}", "main"), ("{doc}", "described"), ("{name}", "ab"), ("{ddoc}", "d"), ("{rest}", "_view/v")] {
                target = target.replacing(parameter, with: value)
            }
            let answer = try await couch.send(operation.method, target, operation.content["requestBody"] == nil ? nil : "{}")
            // 405 and this 404 are the router's own.
            #expect(answer.status != 405 && !answer.text.contains("there is nothing at"), "\(name): \(answer)")
            let status = operation.content["responses"]?["\(answer.status)"]
            #expect(status != nil, "\(name) says nothing of \(answer.status): \(answer.text)")
        }
        // What is not described is not there: no method of a path answers beside those that are said.
        let described = Dictionary(grouping: operations, by: \.path).mapValues { Set($0.map(\.method)) }
        for (path, methods) in described {
            var target = path
            for (parameter, value) in [("{db}", "main"), ("{doc}", "described"), ("{name}", "ab"), ("{ddoc}", "d"), ("{rest}", "_view/v")] {
                target = target.replacing(parameter, with: value)
            }
            let answer = try await couch.send("PATCH", target, "{}")
            // Paths of two patterns are answered by the one that fits better.
            let allowed = Set((answer.header("Allow") ?? "").split(separator: ", ").map(String.init)).subtracting(["HEAD"])
            #expect(answer.status == 405 && allowed == methods, "\(path): \(answer)")
        }
    }

    @Test("names every parameter of a path, and each operation once")
    func parameters() async throws {
        let operations = try await operations()
        for operation in operations {
            let named = (operation.content["parameters"]?.asArray ?? []).filter { $0["in"] == "path" }.compactMap { $0["name"]?.asString }
            let wanted = operation.path.split(separator: "/").filter { $0.first == "{" }.map { String($0.dropFirst().dropLast()) }
            #expect(named == wanted, "\(operation.method) \(operation.path)")
        }
        let ids = operations.compactMap { $0.content["operationId"]?.asString }
        #expect(Set(ids).count == operations.count, "\(ids.sorted())")
    }
}
