import BLIP
import Digests
import Documents
import TestSupport
import Testing

/// What a plugin may do wrong when it is called. Line 3 is where it happens.
enum Misbehaviour: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case raisesAnError, raisesNil, loopsForEver, loopsInAPatternMatch, swallowsItsEnd, allocatesForEver, growsAString, recurses, returnsNothing
    case writesToTheDocument, callsWhatIsNotThere

    var testDescription: String { rawValue }

    var statement: String {
        switch self {
        case .raisesAnError: "error('out of order')"
        case .raisesNil: "error(nil)"
        case .loopsForEver: "while true do end"
        case .loopsInAPatternMatch: "for i = 1, 1e9 do string.find(string.rep('a', 1000), string.rep('a?', 1000) .. 'b') end"
        case .swallowsItsEnd: "while true do pcall(function() while true do end end) end"
        case .allocatesForEver: "local t = {}; while true do t[#t + 1] = { t } end"
        case .growsAString: "local s = 'x'; while true do s = s .. s end"
        case .recurses: "local function f() return 1 + f() end; f()"
        case .returnsNothing: "return"
        case .writesToTheDocument: "doc.a = 1"
        case .callsWhatIsNotThere: "os.execute('touch /tmp/nightjar-was-here')"
        }
    }

    /// A filter that does it for documents with the field `bad`.
    func filter(_ hook: String) -> String {
        "return { \(hook) = function(doc, ctx)\n  if doc.bad then\n    \(statement)\n  else return true end\nend }\n"
    }
}

enum BadFile: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case notLua, bytecode, empty, returnsANumber, returnsNoHooks, hookIsNoFunction, raisesAtLoad, loopsAtLoad, allocatesAtLoad, wantsAnotherParameter
    case binary, tooLarge

    var testDescription: String { rawValue }

    func contents(_ hook: String) -> [UInt8] {
        switch self {
        case .notLua: Array("-- one line\nreturn { \(hook) = = }\n".utf8)
        case .bytecode: [0x1B] + Array("Lua".utf8) + [0x54, 0x00, 0x19, 0x93, 0x0D, 0x0A, 0x1A, 0x0A, 4, 8, 8] + [UInt8](repeating: 0xFF, count: 64)
        case .empty: []
        case .returnsANumber: Array("return 7".utf8)
        case .returnsNoHooks: Array("return {}".utf8)
        case .hookIsNoFunction: Array("return { \(hook) = 'yes' }".utf8)
        case .raisesAtLoad: Array("-- one line\nerror('no')".utf8)
        case .loopsAtLoad: Array("while true do end".utf8)
        case .allocatesAtLoad: Array("local t = {}; while true do t[#t + 1] = string.rep('x', 1000) .. #t end".utf8)
        case .wantsAnotherParameter:
            Array("return { params = { must = { type = 'string', required = true } }, \(hook) = function() return true end }".utf8)
        case .binary: (0..<4096).map { UInt8(truncatingIfNeeded: $0 &* 37) }
        case .tooLarge: Array("return { \(hook) = function() return true end }\n".utf8) + [UInt8](repeating: 0x20, count: 20 << 20)
        }
    }
}

extension AgentProcess {
    /// Saves a plugin and waits until the agent has taken or refused it.
    func plugin(_ name: String, becomes source: String) async throws {
        let before = try await plugin(name)["generation"]?.asInt64 ?? 0
        try folder.write("plugins/.\(name).new", source)
        try folder.rename("plugins/.\(name).new", to: "plugins/\(name).lua")
        try await eventually("plugin \(name) is replaced") { try await self.plugin(name)["generation"]?.asInt64 ?? 0 > before }
    }
}

/// Filters that fail hold documents back, say where and why, and hurt nothing else.
@Suite("Plugins that fail", .serialized, .agent(Configuration.hub(databases: ["main", "side", "source"])))
struct PluginFailureTests {
    private static let pass = "return { push_filter = function() return true end, pull_filter = function() return true end }\n"

    /// An agent whose database `main` is pushed through a filter, `fed` is pulled through one, and `side` goes without.
    private func edge() async throws -> AgentProcess {
        let hub = try sharedAgent()
        let port = try hub.port("edge")
        let folder = try TemporaryFolder()
        try folder.write("plugins/gate.lua", Self.pass)
        try folder.write("plugins/intake.lua", Self.pass)
        return try await AgentProcess.start(
            """
            data: data
            plugins: plugins
            admin: { port: 0, open: true }
            databases: { main: {}, side: {}, fed: {} }
            replicators:
              - { name: out, database: main, target: "ws://127.0.0.1:\(port)/main", type: push, continuous: true, collections: { _default: { push_filter: gate } } }
              - { name: in, database: fed, target: "ws://127.0.0.1:\(port)/source", type: pull, continuous: true, collections: { _default: { pull_filter: intake } } }
              - { name: free, database: side, target: "ws://127.0.0.1:\(port)/side", type: push, continuous: true }
            """, in: folder)
    }

    @Test("hold what they cannot decide, with file and line; a repaired file delivers it")
    func calls() async throws {
        let hub = try sharedAgent()
        let edge = try await edge()
        for kind in Misbehaviour.allCases {
            try await edge.plugin("gate", becomes: kind.filter("push_filter"))
            try await edge.plugin("intake", becomes: kind.filter("pull_filter"))
            try await edge.save("bad-\(kind)", "{\"bad\":true}")
            try await edge.save("good-\(kind)", "{}")
            try await hub.save("bad-\(kind)", "{\"bad\":true}", in: "source")
            try await hub.save("good-\(kind)", "{}", in: "source")
            try await edge.save("free-\(kind)", "{}", in: "side")
            // The others come through.
            try await eventually("\(kind): good documents and those of others arrive") {
                try await every(hub.has("good-\(kind)", in: "main"), edge.has("good-\(kind)", in: "fed"), hub.has("free-\(kind)", in: "side"))
            }
            for (replicator, plugin) in [("out", "gate"), ("in", "intake")] {
                try await edge.waits("held", is: 1, replicator: replicator)
                let held = try await edge.admin.get("/api/replicators/\(replicator)/held").json
                let error = held.asArray?.first?["error"]?.asString ?? ""
                #expect(held.asArray?.first?["id"]?.asString == "bad-\(kind)")
                #expect(error.contains("\(plugin).lua:"), "\(kind) \(replicator): \(error)")
                if kind != .returnsNothing, kind != .recurses { #expect(error.contains("\(plugin).lua:3:"), "\(kind) \(replicator): \(error)") }
                let status = try await edge.plugin(plugin)
                #expect(status["errors"]?.asInt64 ?? 0 > 0)
                #expect(status["last_failure"]?.asString?.contains("\(plugin).lua:") == true, "\(status.text)")
            }
            #expect(try await edge.database("main")["held"]?.asInt64 == 1)
            #expect(try await !hub.has("bad-\(kind)", in: "main"))
            #expect(try await !edge.has("bad-\(kind)", in: "fed"))
            #expect(try await every(edge.isWell(), hub.isWell()))
            // The held document does not keep the replicator busy or stop it.
            try await edge.isSettled(replicator: "out")
            #expect(try await edge.replicator("out")["error"]?.isNull == true)
            // Saving a repaired file is all that it takes.
            try await edge.plugin("gate", becomes: Self.pass)
            try await edge.plugin("intake", becomes: Self.pass)
            try await eventually("\(kind): the held documents are delivered") {
                try await every(hub.has("bad-\(kind)", in: "main"), edge.has("bad-\(kind)", in: "fed"))
            }
            for replicator in ["out", "in"] { try await edge.waits("held", is: 0, replicator: replicator) }
        }
        #expect(!TemporaryFolder.isThere("/tmp/nightjar-was-here"))
        #expect(try await edge.stop().status == 0)
    }

    @Test("what is held survives a restart, and the status as the command prints it shows it")
    func restart() async throws {
        let hub = try sharedAgent()
        let edge = try await edge()
        try await edge.plugin("gate", becomes: Misbehaviour.raisesAnError.filter("push_filter"))
        try await edge.save("kept", "{\"bad\":true}")
        try await edge.waits("held", is: 1, replicator: "out")
        let outcome = try await edge.command("status", "--json")
        #expect(outcome.status == 0, "\(outcome)")
        let printed = try JSONValue(parsing: outcome.outputBytes)
        let replicator = printed["replicators"]?.asArray?.first { $0["name"]?.asString == "out" }
        #expect(replicator?["held"]?.asInt64 == 1)
        let plugin = printed["plugins"]?.asArray?.first { $0["name"]?.asString == "gate" }
        #expect(plugin?["last_failure"]?.asString?.contains("gate.lua:3: out of order") == true, "\(plugin?.text ?? "none")")
        #expect(try await edge.stop().status == 0)

        let again = try await AgentProcess.start(try edge.folder.text("nightjar.yaml"), in: edge.folder)
        // Tried again at the start, and still held.
        try await again.waits("held", is: 1, replicator: "out")
        #expect(try await !hub.has("kept", in: "main"))
        try await again.plugin("gate", becomes: Self.pass)
        try await eventually("the held document is delivered") { try await hub.has("kept", in: "main") }
        #expect(try await again.stop().status == 0)
    }

    @Test("a bad new version is refused, and the old one serves")
    func badFiles() async throws {
        let hub = try sharedAgent()
        let edge = try await edge()
        for kind in BadFile.allCases {
            let version = try await edge.plugin("gate")["version"]
            try edge.folder.write("plugins/.gate.new", bytes: kind.contents("push_filter"))
            try edge.folder.rename("plugins/.gate.new", to: "plugins/gate.lua")
            let refused = try await eventually("\(kind) is refused") {
                let refused = try await edge.plugin("gate")["refused"]?["error"]?.asString
                return refused.flatMap { $0.isEmpty ? nil : $0 }
            }
            #expect(refused.contains("gate.lua"), "\(kind): \(refused)")
            if kind == .notLua || kind == .raisesAtLoad { #expect(refused.contains("gate.lua:2:"), "\(kind): \(refused)") }
            if kind == .loopsAtLoad { #expect(refused.contains("gate.lua:1:"), "\(kind): \(refused)") }
            #expect(try await edge.plugin("gate")["version"] == version)
            try await edge.save("served-\(kind)", "{}")
            try await eventually("\(kind): the old version serves") { try await hub.has("served-\(kind)", in: "main") }
            // The operator is told, and the process is fine.
            let problems = try await edge.status()["attention"]?.text ?? ""
            #expect(problems.contains("gate"), "\(problems)")
            // The version before serves, so this is no matter of health.
            #expect(try await edge.isWell())
            try edge.folder.write("plugins/.gate.new", Self.pass + "-- \(kind)\n")
            try edge.folder.rename("plugins/.gate.new", to: "plugins/gate.lua")
            try await eventually("\(kind): the repaired file is taken") { try await edge.plugin("gate")["refused"]?.isNull == true }
            #expect(try await edge.isWell())
        }
        #expect(try await edge.stop().status == 0)
    }

    @Test("a file that is removed while in use goes on serving")
    func removedFile() async throws {
        let hub = try sharedAgent()
        let edge = try await edge()
        try await edge.plugin("gate", becomes: "return { push_filter = function(doc) return not doc.private end }\n")
        edge.folder.remove("plugins/gate.lua")
        try await eventually("the status says that it is missing") { try await edge.plugin("gate")["state"]?.asString == "missing" }
        try await edge.save("removed-1", "{}")
        try await edge.save("removed-2", "{\"private\":true}")
        try await edge.save("removed-3", "{}")
        try await eventually("the last version decides") { try await hub.has("removed-3", in: "main") }
        #expect(try await hub.has("removed-1", in: "main"))
        #expect(try await !hub.has("removed-2", in: "main"))
        #expect(try await edge.admin.get("/health").text.contains("gate"))
        try edge.folder.write("plugins/gate.lua", Self.pass)
        try await eventually("what was rejected is offered to the new version") { try await hub.has("removed-2", in: "main") }
        #expect(try await edge.isWell())
        #expect(try await edge.stop().status == 0)
    }
}

/// The same on the listener's side: peers are told to keep their documents.
@Suite("Plugins of a listener that fail", .serialized,
    .agent(
        Configuration.hub(listener: "pull_filter: intake", plugins: true),
        files: [
            "plugins/intake.lua": "return { pull_filter = function() return true end }\n",
        ]))
struct ListenerPluginTests {
    @Test("hold back a pushed document with 503, which it keeps", arguments: Misbehaviour.allCases)
    func pullFilter(_ kind: Misbehaviour) async throws {
        let hub = try sharedAgent()
        let bystander = try await Bystander(hub)
        let peer = try await Peer.connect(hub)
        try await hub.plugin("intake", becomes: kind.filter("pull_filter"))
        let bad = Peer.revision("bad-\(kind)", "1-aa", "{\"bad\":true}")
        let replies = try await peer.ask([Peer.revision("before-\(kind)"), bad, Peer.revision("after-\(kind)")])
        #expect(replies[0].error == nil)
        #expect(replies[1].error?.domain == "HTTP")
        #expect(replies[1].error?.code == 503)
        #expect(replies[2].error == nil)
        try await bystander.goesOn()
        #expect(try await !hub.has("bad-\(kind)", in: "main"))
        try await hub.plugin("intake", becomes: "return { pull_filter = function() return true end }\n")
        #expect(try await peer.ask(bad).error == nil)
        #expect(try await hub.has("bad-\(kind)", in: "main"))
        try await peer.close()
        try await bystander.leave()
    }
}

/// Resolvers that fail leave the conflict pending and the local document as it is.
@Suite("Resolvers that fail", .serialized, .agent(Configuration.hub()))
struct ResolverFailureTests {
    static let cases: [(String, String)] = [
        ("raises", "error('undecided')"), ("loops", "while true do end"), ("allocates", "local t = {}; while true do t[#t + 1] = { t } end"),
        ("nothing", "return"), ("nil", "return nil"), ("number", "return 7"), ("string", "return 'local'"), ("function", "return print"),
        ("cycle", "local t = {}; t.t = t; return t"), ("deep", "local t = {}; for i = 1, 10000 do t = { t = t } end; return t"),
        ("notANumber", "return { x = 0/0 }"),
    ]

    @Test("a conflict stays pending until a repaired resolver decides it")
    func pending() async throws {
        let hub = try sharedAgent()
        let folder = try TemporaryFolder()
        let good = "return { resolve = function(c)\n  local m = nightjar.copy(c.remote_doc)\n  m.mine = c.local_doc.side\n  return m\nend }\n"
        try folder.write("plugins/judge.lua", good)
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), collection: "{ conflict_resolver: judge }", plugins: true), in: folder)
        for (name, statement) in Self.cases {
            let base = try await edge.save(name, "{\"side\":\"both\"}")
            try await eventually("\(name): the base is at the hub") { try await hub.has(name, in: "main") }
            try await edge.isSettled()
            try await edge.post("/api/replicators/hub/stop")
            try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
            let errors = try await edge.plugin("judge")["errors"]?.asInt64 ?? 0
            try await edge.save(name, "{\"_rev\":\"\(base)\",\"side\":\"edge\"}")
            try await hub.save(name, "{\"_rev\":\"\(base)\",\"side\":\"hub\"}")
            try await edge.plugin("judge", becomes: "return { resolve = function(c)\n  if c.id == '\(name)' then \(statement) end\n  return c.remote_doc\nend }\n")
            try await edge.post("/api/replicators/hub/start")
            try await eventually("\(name): the conflict is pending") {
                try await every(
                    edge.database("main")["conflicts_pending"]?.asInt64 == 1,
                    edge.plugin("judge")["errors"]?.asInt64 ?? 0 > errors)
            }
            let failure = try await edge.plugin("judge")["last_failure"]?.asString ?? "none"
            #expect(failure.contains("judge.lua:"), "\(name): \(failure)")
            // Whose push it holds up says so.
            let row = try await edge.status()["replicators"]?.asArray?.first
            #expect(row?["attention"]?.text.contains("1 conflict waits, and nothing of such a document is pushed") == true, "\(row?["attention"]?.text ?? "")")
            // So does the list of what the hub does not have yet.
            for path in ["pending", "pending/\(name)"] {
                // The plugin counts its failure before the conflict has noted it.
                let listed = try await eventually("\(name) is listed with its reason") { () -> String? in
                    let listed = try await edge.admin.get("/api/replicators/hub/\(path)").text
                    return listed.contains("\"\(name)\"") && listed.contains("its conflict waits for a decision: ") && listed.contains("judge.lua:") ? listed : nil
                }
                #expect(listed.split(separator: "\"\(name)\"", omittingEmptySubsequences: false).count == 2, "it is listed once: \(listed)")
            }
            // The local document is as it was, other documents go both ways.
            #expect(try await edge.field("side", of: name)?.asString == "edge", "\(name)")
            try await edge.save("other-\(name)", "{}")
            try await hub.save("another-\(name)", "{}")
            try await eventually("\(name): others go on") {
                try await every(hub.has("other-\(name)", in: "main"), edge.has("another-\(name)", in: "main"))
            }
            #expect(try await edge.field("side", of: name)?.asString == "edge", "\(name)")
            #expect(try await edge.isAlive)
            try await edge.plugin("judge", becomes: good)
            try await eventually("\(name): decided on both sides") {
                try await every(edge.field("mine", of: name)?.asString == "edge", hub.field("mine", of: name)?.asString == "edge")
            }
            #expect(try await edge.database("main")["conflicts_pending"]?.asInt64 == 0)
            let revisions = try await [edge.field("_rev", of: name), hub.field("_rev", of: name)]
            #expect(revisions[0] == revisions[1])
        }
        #expect(try await edge.stop().status == 0)
    }
}
