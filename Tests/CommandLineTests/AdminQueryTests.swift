import Documents
import TestSupport
import Testing

/// Query parameters that a route of the admin API does not have.
@Suite struct AdminQueryTests {
    private struct Described {
        let method: String
        /// As ``/api`` shows it: `/api/databases/:db/resync`.
        let pattern: String
        let parameters: [String]

        /// With something in the place of each name; whether it is there does not matter, as the query is looked at first.
        var target: String {
            pattern.replacing(":db", with: "main").replacing(":name", with: "away").replacing(/:[a-z]+/, with: "x")
        }
    }

    private static func routes(_ agent: AgentProcess) async throws -> [Described] {
        let paths = try #require(try await agent.admin.get("/api/openapi.json").json["paths"]?.asObject)
        var routes: [Described] = []
        for path in paths.members {
            for method in path.value.asObject?.members ?? [] {
                let parameters = (method.value["parameters"]?.asArray ?? []).filter { $0["in"] == "query" }.compactMap { $0["name"]?.asString }
                routes.append(
                    Described(
                        method: method.key.uppercased(), pattern: path.key.replacing("{", with: ":").replacing("}", with: ""), parameters: parameters.sorted()))
            }
        }
        return routes
    }

    @Test("every route refuses a query parameter that it does not have, names its own and the nearest, and does nothing")
    func unknown() async throws {
        let agent = try await AgentProcess.start(
            Configuration.plain + "replicators:\n" + Configuration.replicator("away", to: "ws://127.0.0.1:1/main"))
        let routes = try await Self.routes(agent)
        #expect(routes.count > 60 && routes.contains { $0.parameters.count > 3 })
        for route in routes {
            let own = route.parameters.isEmpty ? "none" : route.parameters.joined(separator: ", ")
            let wrongs: [(name: String, nearest: String?)] = route.parameters.map { ("\($0)x", $0) } + [("none_has_this", nil)]
            for (wrong, nearest) in wrongs {
                let answer = try await agent.admin.request(route.method, "\(route.target)?\(wrong)=secret-0x5", body: route.method == "GET" ? nil : [])
                let expected = "\(route.method) \(route.pattern) has no query parameter \"\(wrong)\"; it has \(own)" + (nearest.map { "; did you mean \($0)?" } ?? "")
                #expect(answer.status == 400, "\(route.method) \(route.target)?\(wrong): \(answer)")
                #expect(try answer.json["reason"]?.asString == expected, "\(answer)")
            }
        }
        for page in ["/", "/dashboard/main.js"] { #expect(try await agent.admin.get("\(page)?x=1").status == 400, "\(page)") }
        #expect(try await agent.replicator("away")["activity"] != "stopped")

        let resync = try await agent.admin.post("/api/databases/main/resync?dryrun=true")
        #expect(resync.status == 400)
        #expect(
            try resync.json["reason"]?.asString
                == "POST /api/databases/:db/resync has no query parameter \"dryrun\"; it has collection, document, dry_run; did you mean dry_run?")
        #expect(try await agent.admin.get("/api/databases/main/resync").status == 404)
        // One that is there does not excuse one that is not, and a name may be encoded.
        #expect(try await agent.admin.get("/api/databases/main/documents?deleted=true&delete").status == 400)
        #expect(try await agent.admin.get("/api/databases/main/documents?%64eleted=true&").status == 200)
        #expect(try await agent.admin.get("/api/databases/main/documents?%zz=true").status == 400)
        #expect(try await agent.stop().status == 0)
    }

    @Test("the list of routes, the commands, the dashboard and the guides name only query parameters that there are")
    func named() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        let routes = try await Self.routes(agent)
        for row in try #require(try await agent.admin.get("/api").json.asArray) {
            let route = routes.first { $0.method == row["method"]?.asString && $0.pattern == row["path"]?.asString }
            for match in try #require(row["what"]?.asString).matches(of: /[?&]([a-z_]+)=/) {
                #expect(route?.parameters.contains(String(match.1)) == true, "\(row.text)")
            }
        }
        // The speed is that of a serial device.
        let known = Set(routes.flatMap(\.parameters) + ["speed"])
        let places = ["Sources/nightjar", "Sources/Agent/Dashboard/Page", "examples/guides/operating.md", "examples/guides/conflicts.md"]
        let found = try await Subprocess.run("/usr/bin/grep", ["-rhoE", "[?&][a-z_]+="] + places, folder: NightjarExecutable.package())
        #expect(found.status == 0 && found.lines.count > 30, "\(found)")
        for line in found.lines { #expect(known.contains(String(line.dropFirst().dropLast())), "\(line)") }
        #expect(try await agent.stop().status == 0)
    }
}
