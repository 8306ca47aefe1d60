import Documents
import TestSupport
import Testing

/// A resolver that deletes a document of which both sides have a live revision: the log says who did it, and so does `doc why`.
@Suite struct ResolverDeletionTests {
    private static let wrong = "return { resolve = function() return nightjar.delete end }\n"
    private static let warning = "which both sides had: here "

    private static func warnings(_ agent: AgentProcess) -> [Substring] {
        agent.process.errors.split(separator: "\n").filter { $0.contains(warning) }
    }

    @Test func aReplicatorsResolverIsNamedInTheLogAndByDocWhy() async throws {
        let (hub, edge) = try await ConflictsCommandTests.pair(["wrong": Self.wrong], resolver: "wrong")
        try await ConflictsCommandTests.diverge(hub, edge, "x")
        let line = try await edge.process.line(containing: Self.warning, in: .errors)
        let entry = try await eventually("it is recorded") { () -> JSONValue? in
            try await edge.command("conflicts", "list", "--json").json.asArray?.first { $0["state"] == "decided" }
        }
        let (local, remote) = (entry["local_rev"]?.asString ?? "?", entry["remote_rev"]?.asString ?? "?")
        let version = entry["version"]?.asString ?? "?"
        #expect(line.contains("warning") && line.contains("the resolver wrong deleted document x of ") && line.contains("here \(local), there \(remote)"), "\(line)")
        #expect(line.contains("nightjar conflicts show 1 --db main has both documents") && line.contains("replicator=hub") && line.contains("version=\(version)"), "\(line)")
        let text = try await edge.command("doc", "why", "main", "x").output
        #expect(text.contains("deleted: it is deleted: the resolver wrong (version \(version)) decided a conflict that way at "), "\(text)")
        #expect(text.contains("although both sides had it, here \(local), there \(remote)") && text.contains("nightjar conflicts show 1 --db main"), "\(text)")
        let answer = try await edge.command("doc", "why", "main", "x", "--json").json["document"] ?? .null
        #expect(answer["state"] == "deleted" && answer["decided_by"] == "wrong" && answer["decided_by_version"]?.asString == version, "\(answer.text)")
        #expect(answer["local_rev"]?.asString == local && answer["remote_rev"]?.asString == remote && answer["number"] == 1, "\(answer.text)")
        let shown = try await edge.command("conflicts", "show", "1", "--db", "main").output
        #expect(shown.contains("bob"), "\(shown)")
        #expect(try await hub.stop().status == 0)
        let end = try await edge.stop()
        #expect(end.errors.split(separator: "\n").count { $0.contains(Self.warning) } == 1, "\(end.errors)")
    }

    @Test func aSavesResolverTooAndWhatSomebodyDeletedIsNotItsDoing() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/wrong.lua", Self.wrong)
        let agent = try await AgentProcess.start(
            "plugins: plugins\n" + Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: wrong, "), in: folder)
        func twice(_ id: String, then last: String) async throws {
            let first = try await agent.put("main", id, #"{"n":1}"#).json["rev"]?.asString ?? ""
            #expect(try await agent.put("main", id, "{\"_rev\":\"\(first)\",\"n\":2}").status == 201)
            let saved = try await agent.put("main", id, last.replacing("FIRST", with: first))
            #expect((200...201).contains(saved.status), "\(saved)")
        }
        // The edit is itself a deletion: one side only had the document.
        try await twice("dropped", then: #"{"_rev":"FIRST","_deleted":true}"#)
        #expect(Self.warnings(agent).isEmpty, "\(agent.process.errors)")
        #expect(try await !agent.command("doc", "why", "main", "dropped").output.contains("decided a conflict"))
        try await twice("lost", then: #"{"_rev":"FIRST","n":3}"#)
        #expect(try await agent.get("main", "lost").status == 404)
        let line = try await agent.process.line(containing: Self.warning, in: .errors)
        #expect(line.contains("the resolver wrong deleted document lost of "), "\(line)")
        #expect(try await agent.command("doc", "why", "main", "lost").output.contains("the resolver wrong (version "))
        // Saved again and deleted by somebody: that is no resolver's doing.
        #expect(try await agent.put("main", "lost", #"{"n":4}"#).status == 201)
        #expect(try await agent.command("doc", "rm", "main", "lost").status == 0)
        let text = try await agent.command("doc", "why", "main", "lost").output
        #expect(text.contains("deleted: it is deleted (revision ") && !text.contains("decided a conflict"), "\(text)")
        #expect(try await agent.stop().status == 0)
    }

    @Test func manyOfOnePluginAreAFewLinesWithTheirNumber() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/wrong.lua", Self.wrong)
        let agent = try await AgentProcess.start(
            "plugins: plugins\n" + Configuration.plain.replacing("main: { ", with: "main: { conflict_resolver: wrong, "), in: folder)
        for number in 0..<60 {
            let first = try await agent.put("main", "d\(number)", #"{"n":1}"#).json["rev"]?.asString ?? ""
            #expect(try await agent.put("main", "d\(number)", "{\"_rev\":\"\(first)\",\"n\":2}").status == 201)
            _ = try await agent.put("main", "d\(number)", "{\"_rev\":\"\(first)\",\"n\":3}")
        }
        let end = try await agent.stop()
        let lines = end.errors.split(separator: "\n").filter { $0.contains(Self.warning) }
        #expect((10..<60).contains(lines.count), "\(lines.count)")
        #expect(lines.contains { $0.contains("more lines like this one were not logged") }, "\(lines.last ?? "")")
    }
}
