import Documents
import Glibc
import TestSupport
import Testing

/// Agents that are joined by message endpoints instead of the network.
@Suite struct EndpointTests {
    private static func hub(_ listener: String, database: String = "{}", folder: TemporaryFolder? = nil) async throws -> AgentProcess {
        try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            databases: { main: \(database) }
            listeners:
              - { name: edge, databases: [ main ], \(listener) }
            """, in: folder)
    }

    private static func edge(_ target: String, database: String = "{}", more: String = "") async throws -> AgentProcess {
        try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            databases: { main: \(database), other: {} }
            replicators:
              - { name: hub, database: main, target: "\(target)", continuous: true, max_attempt_wait_time: 1\(more) }
            """)
    }

    /// Documents go both ways, before and after.
    private static func exchange(_ hub: AgentProcess, _ edge: AgentProcess, _ mark: String, count: Int = 50, extra: String = "") async throws {
        try await hub.load("\(mark)-hub", count, extra: extra)
        try await edge.load("\(mark)-edge", count, extra: extra)
        do {
            try await eventually("all documents are on both sides", within: .seconds(120)) {
                try await edge.has("\(mark)-hub-\(count - 1)") ? hub.revisions() == edge.revisions() : false
            }
        } catch { throw SupportError("\(error)\nhub: \(hub.process.errors.suffix(3000))\nedge: \(edge.process.errors.suffix(3000))") }
    }

    private static var userName: String { getpwuid(getuid()).map { String(cString: $0.pointee.pw_name) } ?? "uid:\(getuid())" }

    @Test("A Unix domain socket: only for its user, who is the peer's name; both agents may come and go")
    func unixSocket() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("hub.sock")
        var hub = try await Self.hub("endpoint: \"unix:\(path)\"", folder: folder)
        var facts = stat()
        #expect(lstat(path, &facts) == 0 && facts.st_mode & 0o777 == 0o600)
        let edge = try await Self.edge("unix:\(path)")
        try await Self.exchange(hub, edge, "first", extra: ",\"text\":\"\(String(repeating: "x", count: 3000))\"")
        let peer = try #require(try await hub.listener("edge")["peers"]?.asArray?.first)
        #expect(peer["user"]?.asString == Self.userName)
        #expect(peer["address"]?.asString?.contains("uid \(getuid())") == true, "\(peer.text)")

        // Killed: the file is left, and makes room for the next one.
        try await hub.kill9()
        hub = try await Self.hub("endpoint: \"unix:\(path)\"", folder: folder)
        try await Self.exchange(hub, edge, "second")
        #expect(try await hub.stop().status == 0)
        #expect(!folder.exists("hub.sock"))
        #expect(try await edge.stop().status == 0)
    }

    @Test("version vectors are used on a byte stream too, once either side has them", arguments: [
        (false, false, "BLIP_3+CBMobile_3"), (true, false, "BLIP_3+CBMobile_4"), (false, true, "BLIP_3+CBMobile_4"),
    ])
    func versionVectors(_ atEdge: Bool, _ atHub: Bool, _ name: String) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("hub.sock")
        let hub = try await Self.hub("endpoint: \"unix:\(path)\"", database: "{ version_vectors: \(atHub) }", folder: folder)
        let edge = try await Self.edge("unix:\(path)", database: "{ version_vectors: \(atEdge) }")
        try await Self.exchange(hub, edge, "first")
        try await edge.isSettled()
        #expect(try await edge.replicator("hub")["protocol"]?.asString == name)
        #expect(try await hub.listener("edge")["peers"]?.asArray?.map { $0["protocol"]?.asString } == [name])
        guard atEdge || atHub else { return }
        let id = atEdge ? "first-edge-0" : "first-hub-0"
        let (there, here) = try await (hub.command("doc", "get", "main", id, "--cv").output, edge.command("doc", "get", "main", id, "--cv").output)
        #expect(here.contains("_cv") && here == there, "\(here)\n\(there)")
    }

    @Test("push alone and pull alone move documents in their own direction only", arguments: ["unix", "exec"], ["push", "pull"])
    func oneWay(_ scheme: String, _ type: String) async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("hub.sock")
        let hub = try await Self.hub("endpoint: \"unix:\(path)\"", folder: folder)
        let target = scheme == "unix" ? "unix:\(path)" : "exec:\(try NightjarExecutable.path()) pipe \(path)"
        let edge = try await Self.edge(target, more: ", type: \(type)")
        try await hub.load("hub", 30)
        try await edge.load("edge", 30)
        let (from, to, moved) = type == "push" ? (edge, hub, "edge") : (hub, edge, "hub")
        try await eventually("all that is meant to move has moved") { try await to.has("\(moved)-29") }
        try await edge.isSettled()
        #expect(try await to.revisions().count == 60)
        #expect(try await from.revisions().count == 30)
        // Later ones, too.
        try await from.save("later", "{}")
        try await to.save("stays", "{}")
        try await eventually("the later one has moved") { try await to.has("later") }
        try await edge.isSettled()
        #expect(try await !from.has("stays"))
        let counts = try await edge.replicator("hub")
        #expect(counts[type == "push" ? "pushed" : "pulled"]?.asInt64 == 31 && counts[type == "push" ? "pulled" : "pushed"]?.asInt64 == 0, "\(counts.text)")
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("A listener's authenticator is called on an endpoint, too, and read_only applies")
    func authenticatorAtAnEndpoint() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/door.lua", """
            return { authenticate_password = function(name, password) return name == "ann" and password == "right" and { name = name } end }
            """)
        let path = folder.path("hub.sock")
        let hub = try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            plugins: plugins
            databases: { main: {} }
            listeners:
              - { name: edge, databases: [ main ], endpoint: "unix:\(path)", authenticator: door, read_only: true }
            """, in: folder)
        for more in ["", ", authenticator: { username: ann, password: wrong }"] {
            let edge = try await Self.edge("unix:\(path)", more: more)
            try await edge.waits("the refusal") { $0.text.contains("401") }
            #expect(try await hub.listener("edge")["connections"]?.asInt64 == 0)
        }
        let edge = try await Self.edge("unix:\(path)", more: ", authenticator: { username: ann, password: right }")
        try await hub.save("h", "{}")
        try await edge.save("e", "{}")
        try await eventually("the hub's document arrives") { try await edge.has("h") }
        try await edge.waits("the push is refused") { $0.text.contains("403") || $0["failed"]?.asInt64 ?? 0 > 0 || $0["rejected"]?.asInt64 ?? 0 > 0 }
        #expect(try await !hub.has("e"))
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "ann")
    }

    @Test("A command as the connection: nightjar pipe, whose output is in the log, and which ends with the replicator")
    func execPipe() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path("hub.sock")
        let hub = try await Self.hub("endpoint: \"unix:\(path)\"", folder: folder)
        let nightjar = try NightjarExecutable.path()
        let script = try folder.write("way.sh", "echo \"$1 is the way\" >&2\nexec '\(nightjar)' pipe \"$2\"\n")
        let edge = try await Self.edge("exec:/bin/sh \(script) 'the long road' \(path)")
        try await Self.exchange(hub, edge, "first")
        try await eventually("its standard error is logged") { edge.process.errors.contains("the long road is the way") }
        #expect(Self.children(of: edge.process.pid).count == 1)
        try await edge.post("/api/replicators/hub/stop")
        try await eventually("the command has ended") { Self.children(of: edge.process.pid).isEmpty }
        #expect(try await edge.stop().status == 0)

        // The same for a replication without an agent.
        let outcome = try await Subprocess.run(
            nightjar, ["replicate", "exec:'\(nightjar)' pipe \(path)", "copy.nightjar", "--json"], folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        #expect(try JSONValue(parsing: outcome.output)["pulled"] == 100)
    }

    @Test("A plugin sees a command as status shows it: its program, without arguments that may be secrets")
    func execForPlugins() async throws {
        let (there, folder) = (try TemporaryFolder(), try TemporaryFolder())
        let path = there.path("hub.sock")
        let hub = try await Self.hub("endpoint: \"unix:\(path)\"", folder: there)
        let script = try there.write("way.sh", "exec '\(try NightjarExecutable.path())' pipe \"$1\"\n")
        try folder.write("plugins/tell.lua", "return { push_filter = function(doc, ctx) error('to ' .. ctx.remote .. '!') end }\n")
        let edge = try await AgentProcess.start(
            """
            data: data
            plugins: plugins
            admin: { port: 0, open: true }
            databases: { main: {} }
            replicators:
              - { name: hub, database: main, target: "exec:/bin/sh \(script) \(path) --password hunter8", collections: { _default: { push_filter: tell } } }
            """, in: folder)
        try await edge.save("e", "{}")
        try await edge.post("/api/replicators/hub/start")
        try await edge.waits("held", is: 1)
        let held = try await edge.command("replicator", "hub", "held").output
        #expect(held.contains("to exec:/bin/sh!") && !held.contains("hunter8"), "\(held)")
        #expect(!(try await edge.command("doc", "why", "main", "e").output.contains("hunter8")))
        #expect(try await edge.replicator("hub")["target"] == "exec:/bin/sh")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("A listener at a command: what the command reads and writes is the peer, and a command that ends is started again")
    func execListener() async throws {
        let folder = try TemporaryFolder()
        #expect(mkfifo(folder.path("up"), 0o600) == 0 && mkfifo(folder.path("down"), 0o600) == 0)
        // Both open the same one first, or each would wait for the other.
        let listening = try folder.write("listening.sh", "exec 3< \"$1/up\" 4> \"$1/down\"; cat <&3 4>&- & exec cat >&4 3<&-\n")
        let calling = try folder.write("calling.sh", "exec 4> \"$1/up\" 3< \"$1/down\"; cat <&3 4>&- & exec cat >&4 3<&-\n")
        let hub = try await Self.hub("endpoint: \"exec:/bin/sh \(listening) \(folder.path)\", user: the-command")
        let edge = try await Self.edge("exec:/bin/sh \(calling) \(folder.path)")
        try await Self.exchange(hub, edge, "first")
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "the-command")
        try await edge.post("/api/replicators/hub/stop")
        try await eventually("the peer is gone") { try await hub.listener("edge")["connections"]?.asInt64 == 0 }
        try await edge.post("/api/replicators/hub/start")
        try await Self.exchange(hub, edge, "second")
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
        #expect(Self.children(of: hub.process.pid).isEmpty)
    }

    @Test("A serial line that loses, changes and invents bytes: everything arrives")
    func serialLine() async throws {
        let cable = try NoisyCable(seed: 11, oneIn: 1500)
        let hub = try await Self.hub("endpoint: \"serial:\(cable.ends.0)?speed=115200\", user: field-unit")
        let edge = try await Self.edge("serial:\(cable.ends.1)?speed=115200")
        try await Self.exchange(hub, edge, "first", count: 20, extra: ",\"text\":\"\(String(repeating: "abc", count: 300))\"")
        #expect(cable.spoilt > 0)
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "field-unit")
        // The device is given back and taken again.
        try await edge.post("/api/replicators/hub/stop")
        try await edge.post("/api/replicators/hub/start")
        try await Self.exchange(hub, edge, "second", count: 5)
    }

    @Test("Another database of the same agent")
    func localTarget() async throws {
        let agent = try await Self.edge("local:other")
        try await agent.load("a", 30)
        try await agent.load("b", 20, in: "other")
        try await eventually("both have all") { try await agent.revisions().count == 50 ? agent.revisions("other").count == 50 : false }
        #expect(try await agent.revisions() == agent.revisions("other"))
        try await agent.isSettled()
        // A delta would save nothing there.
        let text = String(repeating: "wind and weather ", count: 600)
        let revision = try await agent.save("long", "{\"n\":0,\"text\":\"\(text)\"}")
        try await eventually("it is there") { try await agent.has("long", in: "other") }
        try await agent.isSettled()
        try await agent.save("long", "{\"_rev\":\"\(revision)\",\"n\":1,\"text\":\"\(text)\"}")
        try await eventually("the change is there") { try await agent.field("n", of: "long", in: "other")?.asInt64 == 1 }
        try await agent.isSettled()
        #expect(try await agent.replicator("hub")["delta"]?["sent"]?.asInt64 == 0)
    }

    @Test("A conflict that is decided in another database of the same agent is reported like any other")
    func localConflict() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/judge.lua", "return { resolve = function(c) return c.remote_doc end }\n")
        let agent = try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            plugins: plugins
            databases: { main: {}, other: { conflict_resolver: judge } }
            replicators:
              - { name: hub, database: main, target: "local:other", type: push, continuous: true, max_attempt_wait_time: 1 }
            """, in: folder)
        let events = try await EventProbe(agent)
        let base = try await agent.save("torn", "{\"side\":\"both\"}")
        try await eventually("the base is there") { try await agent.has("torn", in: "other") }
        try await agent.isSettled()
        try await agent.post("/api/replicators/hub/stop")
        try await agent.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await agent.save("torn", "{\"_rev\":\"\(base)\",\"side\":\"main\"}")
        try await agent.save("torn", "{\"_rev\":\"\(base)\",\"side\":\"other\"}", in: "other")
        try await agent.post("/api/replicators/hub/start")
        try await eventually("it is decided") { try await agent.field("side", of: "torn", in: "other")?.asString == "main" }
        try await events.wait("the conflict is told") { told in
            let conflict = told.split(whereSeparator: \.isNewline).drop { $0 != "event: conflict" }.dropFirst().first ?? ""
            return conflict.contains("\"torn\"") && conflict.contains("\"other\"")
        }
        #expect(try await agent.stop().status == 0)
    }

    @Test("check says what an endpoint needs", arguments: [
        ("endpoint: \"serial:/dev/ttyS0\"", "nothing says who is at the other end"),
        ("endpoint: \"unix:a.sock\", mode: 0666", "other users of this machine may connect"),
        ("endpoint: \"serial:/dev/ttyS0?speed=12\", user: a", "not a speed of a serial device"),
        ("endpoint: \"unix:a.sock\", port: 4984", "applies to listeners on a port only"),
        ("endpoint: \"ws://h/main\", user: a", "expected an endpoint beginning with"),
        ("interface: lo, user: a", "needs an \"endpoint\""),
    ])
    func check(listener: String, problem: String) async throws {
        let folder = try TemporaryFolder()
        let file = try folder.write(
            "nightjar.yaml", "data: data\ndatabases: { main: {} }\nlisteners: [ { name: edge, databases: [ main ], \(listener) } ]\n")
        let outcome = try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", file], folder: folder.path)
        #expect(outcome.status != 0 && (outcome.output + outcome.errors).contains(problem), "\(outcome)")
    }

    private static func children(of parent: pid_t) -> [pid_t] {
        guard let bytes = try? TemporaryFolder.bytes(of: "/proc/\(parent)/task/\(parent)/children") else { return [] }
        var found = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { pid_t($0) }
        // Started by another thread of it.
        if let folder = opendir("/proc/\(parent)/task") {
            defer { closedir(folder) }
            while let entry = readdir(folder) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
                guard name != ".", name != "..", name != "\(parent)", let bytes = try? TemporaryFolder.bytes(of: "/proc/\(parent)/task/\(name)/children") else { continue }
                found += String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { pid_t($0) }
            }
        }
        return found
    }
}
