import Documents
import TestSupport
import Testing

/// A conflict that nobody decides is decided by hand.
@Suite("Deciding a conflict by hand")
struct ConflictsResolveTests {
    enum Choice: String, Sendable, CaseIterable { case local, remote, delete, document }

    private static let fragile = "return {\n  resolve = function(c)\n    return c.local_doc.a.b\n  end,\n}\n"

    /// A conflict of document x that waits at the edge: here it costs 1, there 2.
    private static func waiting() async throws -> (hub: AgentProcess, edge: AgentProcess) {
        let (hub, edge) = try await ConflictsCommandTests.pair(["fragile": fragile], resolver: "fragile")
        try await ConflictsCommandTests.diverge(hub, edge, "x")
        try await eventually("the conflict waits") { try await edge.command("conflicts", "list", "--pending", "--json").json.asArray?.count == 1 }
        return (hub, edge)
    }

    @Test("the local document, the remote one, none, or another one wins, on both sides; the history says that it was decided by hand", arguments: Choice.allCases, Place.allCases)
    func decided(_ choice: Choice, _ place: Place) async throws {
        let (hub, edge) = try await Self.waiting()
        let yaml = try edge.folder.write("again.yaml", String(decoding: try TemporaryFolder.bytes(of: edge.configuration), as: UTF8.self))
        if place == .folder { try await edge.stop() }
        func run(_ arguments: [String], input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
            try await Subprocess.run(
                try NightjarExecutable.path(), ["conflicts", "resolve"] + arguments + ["--config", yaml], folder: edge.folder.path, input: input)
        }
        let shown = try await run(["x"])
        #expect(shown.status == 0 && shown.output.contains("price: from 1 to 2") && shown.output.contains("fragile.lua:3:"), "\(shown)")
        let row = try await run(["x", "--json"]).json
        let seen = "\(row["local"]?["rev"]?.asString ?? ""),\(row["remote"]?["rev"]?.asString ?? "")"
        #expect(shown.output.contains("--take local (here)") && shown.output.contains("--db main._default._default --seen \(seen)"), "\(shown)")

        // What another saw is not decided, and nor is nonsense.
        let swapped = seen.split(separator: ",").reversed().joined(separator: ",")
        let stale = try await run(["x", "--take", "remote", "--seen", swapped])
        #expect(stale.status == 1 && stale.errors.contains("is not between") && stale.errors.contains("nothing was decided"), "\(stale)")
        let broken = try await run(["x", "--document", "-"], input: .text("{\"price\":"))
        #expect(broken.status == 1 && broken.errors.contains("standard input"), "\(broken)")
        let other = try await run(["x", "--document", "-"], input: .text("{\"_id\":\"y\"}"))
        #expect(other.status == 1 && other.errors.contains("but the conflict is of \"x\""), "\(other)")
        let list = try await run(["x", "--document", "-"], input: .text("[1]"))
        #expect(list.status == 1 && list.errors.contains("not a JSON object"), "\(list)")
        for wrong in [["x", "--take", "both"], ["x", "--take", "local", "--document", "-"], ["x", "--take", "local", "--seen", "1-aa"], ["x", "--seen", seen]] {
            #expect(try await run(wrong).status == 64, "\(wrong)")
        }
        #expect(try await run(["x", "--json"]).json["local"]?["rev"] == row["local"]?["rev"])

        let outcome =
            choice == .document
            ? try await run(["x", "--document", "-", "--seen", seen, "--json"], input: .text("{\"_id\":\"x\",\"price\":7}"))
            : try await run(["x", "--take", choice.rawValue])
        #expect(outcome.status == 0, "\(outcome)")
        let agent = place == .folder ? try await AgentProcess.start(String(decoding: try TemporaryFolder.bytes(of: yaml), as: UTF8.self), in: edge.folder) : edge
        if choice == .delete {
            try await eventually("the hub has it deleted") { try await hub.get("main", "x").status == 404 }
            #expect(try await agent.get("main", "x").status == 404)
        } else {
            let (price, note): (Int64, String?) = choice == .local ? (1, "x") : choice == .remote ? (2, nil) : (7, nil)
            try await eventually("the hub has what was decided") { try await hub.get("main", "x").json["price"]?.asInt64 == price }
            for side in [hub, agent] {
                let document = try await side.get("main", "x").json
                #expect(document["price"]?.asInt64 == price && document["note"]?.asString == note, "\(document.text)")
            }
            #expect(try await hub.get("main", "x").json["_rev"] == agent.get("main", "x").json["_rev"])
        }
        let history = try #require(try await agent.command("conflicts", "list", "--json").json.asArray?.first)
        #expect(history["state"] == "decided" && history["plugin"] == "(by hand)" && history["decision"]?.asString == (choice == .document ? "merged" : choice.rawValue))
        #expect(history["place"]?["kind"] == "replicator" && history["place"]?["name"] == "hub", "\(history.text)")
        #expect(try await agent.command("conflicts", "show", "1").output.contains("decided by (by hand) in "))
        #expect(try await agent.command("conflicts", "list", "--pending").output == "no conflicts\n")
        let over = try await agent.command("conflicts", "resolve", "x", "--take", "local")
        #expect(over.status == 1 && over.errors.contains("no conflict of document \"x\" waits"), "\(over)")
    }

    @Test("an edit made after looking is not lost: the decision is refused, and accepted after another look; the event is reported")
    func moved() async throws {
        let (hub, edge) = try await Self.waiting()
        let events = try await EventProbe(edge)
        func row() async throws -> JSONValue { try await edge.command("conflicts", "resolve", "x", "--json").json }
        func seen(_ row: JSONValue) -> String { "\(row["local"]?["rev"]?.asString ?? ""),\(row["remote"]?["rev"]?.asString ?? "")" }
        let before = try await row()
        let rev = before["local"]?["rev"]?.asString ?? ""
        #expect(try await edge.put("main", "x", "{\"_rev\":\"\(rev)\",\"price\":5}").status == 201)
        let stale = try await edge.command("conflicts", "resolve", "x", "--take", "local", "--seen", seen(before))
        #expect(stale.status == 1 && stale.errors.contains("is not between \(rev) and"), "\(stale)")
        #expect(try await edge.command("conflicts", "list", "--pending", "--json").json.asArray?.count == 1)
        #expect(try await edge.command("conflicts", "resolve", "x", "--take", "local", "--seen", seen(try await row())).status == 0)
        try await eventually("the hub has the later edit") { try await hub.get("main", "x").json["price"] == 5 }
        try await events.wait("it is told") { $0.contains(#""state":"decided""#) && $0.contains("(by hand)") }
    }

    @Test("over the admin API a token needs the role operate, and what is missing or wrong is named")
    func api() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("admin: { port: 0, open: true }", with: """
                admin:
                  port: 0
                  tokens:
                    - { name: looks, token: look-look-look-look-look, role: read }
                    - { name: acts, token: acts-acts-acts-acts-acts, role: operate }
                """), in: folder)
        let probe = HTTPProbe.tcp(port: try agent.port("admin"))
        func post(_ token: String, _ body: String) async throws -> HTTPProbe.Answer {
            try await probe.request("POST", "/api/conflicts/x/resolve", headers: [("Authorization", "Bearer \(token)")], body: Array(body.utf8))
        }
        let right = #"{"local_rev":"2-aa","remote_rev":"2-bb","take":"local"}"#
        #expect(try await post("look-look-look-look-look", right).status == 403)
        let none = try await post("acts-acts-acts-acts-acts", right)
        #expect(none.status == 404 && none.text.contains("no conflict of document"), "\(none)")
        for (body, words) in [
            ("{", "not JSON"), ("{}", "local_rev is missing"), (#"{"local_rev":"x","remote_rev":"2-bb","take":"local"}"#, "local_rev: "),
            (#"{"local_rev":"2-aa","remote_rev":"2-bb"}"#, "either take"), (#"{"local_rev":"2-aa","remote_rev":"2-bb","take":"local","document":{}}"#, "either take"),
        ] {
            let answer = try await post("acts-acts-acts-acts-acts", body)
            #expect(answer.status == 400 && answer.text.contains(words), "\(body): \(answer)")
        }
    }
}
