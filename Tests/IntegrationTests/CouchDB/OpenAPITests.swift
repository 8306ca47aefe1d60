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

    @Test("describes each route of the router, and no route that the router lacks")
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
        // A login is not redirected, whatever it says where to.
        let login = operations.first { $0.method == "POST" && $0.path == "/_session" }
        #expect(login?.content["parameters"] == nil)
        let ids = operations.compactMap { $0.content["operationId"]?.asString }
        #expect(Set(ids).count == operations.count, "\(ids.sorted())")
    }

    /// One request of those that have an answer of their own.
    private struct Sent {
        var method: String
        var path: String
        var target: String
        var body: String?
        var headers: [(String, String)] = []
    }

    /// What comes of a document of one kind from its first revision to its end, with what that kind does not heed.
    private func sent(_ couch: CouchHTTP, _ path: String, _ id: String) async throws -> [(Sent, HTTPProbe.Answer)] {
        var all: [(Sent, HTTPProbe.Answer)] = []
        func send(_ method: String, _ query: String = "", _ body: String? = nil, _ headers: [(String, String)] = []) async throws -> HTTPProbe.Answer {
            let sent = Sent(method: method, path: path, target: "/main/\(id)\(query)", body: body, headers: headers)
            let answer = try await couch.send(method, sent.target, body, headers)
            all.append((sent, answer))
            return answer
        }
        func revision() async throws -> String { try await couch.ok("GET", "/main/\(id)")["_rev"]?.asString ?? "" }
        _ = try await send("PUT", "", "{\"n\":1}")
        _ = try await send("PUT", "?batch=ok", "{\"n\":2,\"_rev\":\"\(try await revision())\"}")
        // A name in the header stands for one in the document, where it is heeded.
        _ = try await send("PUT", "", "{\"n\":3}", [("If-Match", try await revision())])
        let parts = "--p\r\nContent-Type: application/json\r\n\r\n{\"n\":4}\r\n--p--"
        _ = try await send("PUT", "", parts, [("Content-Type", "multipart/related; boundary=p"), ("If-Match", try await revision())])
        let tag = try await send("GET").header("ETag") ?? ""
        _ = try await send("GET", "", nil, [("If-None-Match", tag)])
        _ = try await send("GET", "?open_revs=all&revs=true&latest=true", nil)
        _ = try await send("COPY", "", nil, [("Destination", "\(id.replacing("/", with: "-"))-copy")])
        _ = try await send("COPY", "?batch=ok", nil, [("Destination", "\(id.replacing("/", with: "-"))-other")])
        _ = try await send("DELETE", "?rev=\(try await revision())")
        _ = try await send("PUT", "", "{\"n\":5}")
        _ = try await send("DELETE", "?batch=ok&rev=\(try await revision())")
        return all
    }

    @Test("says which answers there are for documents of each kind", arguments: [
        ("/{db}/{doc}", "of-three-kinds"), ("/{db}/_design/{doc}", "_design/of-three-kinds"), ("/{db}/_local/{doc}", "_local/of-three-kinds"),
    ])
    func kinds(path: String, id: String) async throws {
        let operations = Dictionary(grouping: try await operations().filter { $0.path == path }, by: \.method)
        var found: [String: Set<Int>] = [:]
        for (sent, answer) in try await sent(CouchHTTP(sharedAgent()), path, id) {
            let operation = try #require(operations[sent.method]?.first)
            #expect(operation.content["responses"]?["\(answer.status)"] != nil, "\(sent): \(answer)")
            if answer.status < 400 { found[sent.method, default: []].insert(answer.status) }
        }
        for (method, operation) in operations {
            let described = (operation.first?.content["responses"]?.asObject?.members ?? []).compactMap { Int($0.key) }.filter { $0 < 400 }
            #expect(Set(described) == found[method, default: []], "\(method) \(path)")
        }
        // Parameters and headers that are said to be read are; those of another kind are not said.
        func named(_ method: String) -> Set<String> {
            Set((operations[method]?.first?.content["parameters"]?.asArray ?? []).filter { $0["in"] != "path" }.compactMap { $0["name"]?.asString })
        }
        #expect(named("PUT").contains("If-Match") != id.hasPrefix("_local"))
        #expect(named("GET").contains("If-None-Match") != id.hasPrefix("_design"))
        #expect(named("GET").contains("conflicts") != id.hasPrefix("_"))
        let taken = operations["PUT"]?.first?.content["requestBody"]?["content"]?.asObject?.members.map(\.key) ?? []
        #expect(taken.contains("multipart/related") != id.hasPrefix("_local"), "\(taken)")
    }

    @Test("feeds are said to be JSON, or events")
    func feeds() async throws {
        for operation in try await operations() where operation.path == "/{db}/_changes" {
            let types = operation.content["responses"]?["200"]?["content"]?.asObject?.members.map(\.key) ?? []
            #expect(Set(types) == ["application/json", "text/event-stream"], "\(operation.method): \(types)")
        }
    }
}
