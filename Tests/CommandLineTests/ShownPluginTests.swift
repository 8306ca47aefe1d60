import Documents
import Glibc
import TestSupport
import Testing

/// The Lua that README and the guides show, run as it stands there.
@Suite("Lua of README and the guides")
struct ShownPluginTests {
    /// The blocks of Lua in a page, in their order.
    static func blocks(_ page: String) throws -> [String] {
        let text = String(decoding: try TemporaryFolder.bytes(of: "\(NightjarExecutable.package())/\(page)"), as: UTF8.self)
        var blocks: [String] = []
        var block: [Substring]?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if let lines = block {
                if line == "```" {
                    blocks.append(lines.joined(separator: "\n") + "\n")
                    block = nil
                } else {
                    block = lines + [line]
                }
            } else if line == "```lua" {
                block = []
            }
        }
        return blocks
    }

    /// `newest` from `-- plugins/newest.lua` or `-- newest.lua: what it does` in the first line.
    private static func name(_ block: String) -> String? {
        guard let first = block.split(separator: "\n").first, first.hasPrefix("-- "), let end = first.firstRange(of: ".lua") else { return nil }
        return first[first.index(first.startIndex, offsetBy: 3)..<end.lowerBound].split(separator: "/").last.map { String($0) }
    }

    private static func named(_ name: String, in page: String) throws -> String {
        try #require(try blocks(page).first { Self.name($0) == name }, "\(page) shows no \(name).lua")
    }

    private static func pages() throws -> [String] {
        let folder = "examples/guides"
        guard let directory = opendir("\(NightjarExecutable.package())/\(folder)") else { throw SupportError("no folder \(folder)") }
        defer { closedir(directory) }
        var pages = ["README.md", "plugins/README.md"]
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
            if name.hasSuffix(".md") { pages.append("\(folder)/\(name)") }
        }
        return pages.sorted()
    }

    @Test("every block is a plugin that loads, or tests that pass beside the first one of the page")
    func loads() async throws {
        var count = 0
        for page in try Self.pages() {
            let blocks = try Self.blocks(page)
            guard !blocks.isEmpty else { continue }
            let folder = try TemporaryFolder()
            let first = blocks.lazy.compactMap { Self.name($0) }.first ?? "block-0"
            for (number, block) in blocks.enumerated() {
                let file = block.contains("function(t)") ? "\(first).test.lua" : "\(Self.name(block) ?? "block-\(number)").lua"
                try folder.write("p/\(file)", block)
            }
            count += blocks.count
            let outcome = try await NightjarExecutable.run("plugin", "check", "--plugins", folder.path("p"))
            #expect(outcome.status == 0, "\(page): \(outcome)")
        }
        #expect(count >= 6, "what looks for them is broken: \(count)")
    }

    @Test("README's first filter decides about documents as README says")
    func filter() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/hot-only.lua", try Self.named("hot-only", in: "README.md"))
        for (document, passes) in [
            (#"{"type": "reading", "value": 95}"#, true), (#"{"type": "reading", "value": 89}"#, false), (#"{"type": "note", "value": 95}"#, false),
            (#"{"type": "reading", "value": "hot"}"#, false), (#"{"_deleted": true}"#, true),
        ] {
            let outcome = try await NightjarExecutable.run(
                "plugin", "run", "hot-only", "push_filter", "--doc", "-", "--json", folder: folder.path, input: .text(document))
            #expect(try outcome.json["result"]?.asBool == passes && outcome.status == 0, "\(document): \(outcome)")
        }
    }

    private static func decision(_ block: String, _ conflict: String) async throws -> JSONValue {
        let folder = try TemporaryFolder()
        try folder.write("plugins/newest.lua", block)
        let outcome = try await NightjarExecutable.run(
            "plugin", "run", "newest", "resolve", "--conflict", try folder.write("conflict.json", conflict), "--json", folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        return try outcome.json["result"] ?? .null
    }

    @Test("the first resolver of README and of the guide: the later timestamp wins, and so does a deletion", arguments: ["README.md", "examples/guides/conflicts.md"])
    func resolver(_ page: String) async throws {
        let block = try #require(try Self.blocks(page).first { $0.contains("The later timestamp wins") }, "\(page)")
        let early = #"{"at":"2026-01-01T00:00:00Z","n":1}"#, late = #"{"at":"2026-01-02T00:00:00Z","n":2}"#
        #expect(try await Self.decision(block, #"{"local_doc":\#(early),"remote_doc":\#(late)}"#)["n"] == 2)
        #expect(try await Self.decision(block, #"{"local_doc":\#(late),"remote_doc":\#(early)}"#)["n"] == 2)
        #expect(try await Self.decision(block, #"{"local_doc":\#(early),"remote_doc":{"n":3}}"#)["n"] == 1)
        #expect(try await Self.decision(block, #"{"local_doc":{"n":4},"remote_doc":{"n":3}}"#)["n"] == 4)
        #expect(try await Self.decision(block, #"{"local_doc":\#(early)}"#)["_deleted"] == true)
        #expect(try await Self.decision(block, #"{"remote_doc":\#(late),"base_doc":\#(early)}"#)["_deleted"] == true)
    }

    @Test("README's first resolver decides between two agents")
    func betweenAgents() async throws {
        let newest = try Self.named("newest", in: "README.md")
        let (hub, edge) = try await ConflictsCommandTests.pair(["newest": newest], resolver: "newest")
        var first: [String: String] = [:]
        for id in ["here", "there"] {
            first[id] = try await edge.put("main", id, #"{"at":"2026-01-01T00:00:00Z"}"#).json["rev"]?.asString ?? ""
            try await eventually("\(id) is at the hub") { try await hub.get("main", id).status == 200 }
        }
        _ = try await edge.command("replicator", "hub", "stop")
        try await eventually("stopped") { try await edge.replicator("hub")["activity"] == "stopped" }
        for (id, day) in [("here", 9), ("there", 2)] {
            let revision = first[id] ?? ""
            #expect(try await edge.put("main", id, "{\"_rev\":\"\(revision)\",\"at\":\"2026-01-0\(day)T00:00:00Z\",\"by\":\"edge\"}").status == 201)
            #expect(try await hub.put("main", id, "{\"_rev\":\"\(revision)\",\"at\":\"2026-01-05T00:00:00Z\",\"by\":\"hub\"}").status == 201)
        }
        _ = try await edge.command("replicator", "hub", "start")
        for (id, winner) in [("here", "edge"), ("there", "hub")] {
            for agent in [edge, hub] {
                try await eventually("\(winner)'s edit of \(id) is at both") { try await agent.get("main", id).json["by"]?.asString == winner }
            }
        }
        #expect(try await edge.command("conflicts", "list", "--json").json.asArray?.count { $0["plugin"] == "newest" } == 2)
        #expect(try await hub.stop().status == 0)
        #expect(try await edge.stop().status == 0)
    }
}
