import Documents
import TestSupport
import Testing

/// Query parameters that are true or false.
@Suite struct AdminFlagTests {
    private static let all = ["bodies", "collection_names", "cv", "deleted", "dry_run", "facts", "keep", "log", "missing_blobs", "newest", "reset"]

    @Test("every query parameter that is true or false is documented, and any other value is refused with a message that says so, before anything is done")
    func words() async throws {
        let agent = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("away", to: "ws://127.0.0.1:1/main"))
        let paths = try #require(try await agent.admin.get("/api/openapi.json").json["paths"]?.asObject)
        var seen: Set<String> = []
        for path in paths.members {
            for method in path.value.asObject?.members ?? [] {
                for parameter in method.value["parameters"]?.asArray ?? [] where parameter["in"] == "query" && parameter["schema"]?["type"] != "string" {
                    let name = try #require(parameter["name"]?.asString)
                    seen.insert(name)
                    #expect(parameter["schema"]?["type"] == "boolean" && parameter["required"]?.asBool == false, "\(parameter.text)")
                    let place = path.key.replacing("{db}", with: "main").replacing("{name}", with: "away").replacing("{id}", with: "x").replacing("{digest}", with: "x")
                    for word in ["yes", "1", "TRUE", ""] {
                        let answer = try await agent.admin.request(method.key.uppercased(), "\(place)?\(name)=\(word)", body: method.key == "get" ? nil : [])
                        #expect(answer.status == 400, "\(method.key) \(place)?\(name)=\(word): \(answer)")
                        #expect(try answer.json["reason"]?.asString == "\(name) must be true or false, not \"\(word)\"", "\(answer)")
                    }
                }
            }
        }
        #expect(seen.sorted() == Self.all)
        #expect(try await agent.replicator("away")["activity"] != "stopped")
        #expect(try await agent.admin.post("/api/replicators/away/stop?keep=false").status == 202)
        #expect(try await agent.admin.get("/api/databases/main/documents?deleted=true").status == 200)
        #expect(try await agent.stop().status == 0)
    }
}
