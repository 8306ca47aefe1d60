import Documents
import Glibc
import TestSupport
import Testing

/// Orderly stops, restarts and reloads while replications run.
@Suite("Stops, restarts and reloads", .serialized)
struct RestartTests {
    /// Stops an agent. Five seconds are promised; the rest is for a busy machine.
    private func stopInTime(_ agent: AgentProcess) async throws {
        agent.process.send(SIGTERM)
        let end = try await agent.process.wait(within: .seconds(30))
        #expect(end.status == 0, "\(end)")
        #expect(!agent.folder.exists("data/admin.sock"))
    }

    @Test("SIGTERM on the receiving side of a busy push: exit 0 in time, 4001 to the peers, who come back")
    func hubStops() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        let peer = try await Peer.connect(hub)
        try await peer.push("peer")
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.load("a", 6_000)
        try await eventually("the push is under way") { try await hub.documents("main") > 200 }
        async let code = peer.closeCode()
        try await stopInTime(hub)
        #expect(try await code == 4001)
        try await edge.waits("offline or connecting") { ["offline", "connecting"].contains($0["activity"]?.asString ?? "") }
        let status = try await edge.replicator("hub")
        #expect(status["error"]?["transient"]?.asBool == true, "\(status.text)")
        let again = try await AgentProcess.start(try hub.folder.text("nightjar.yaml"), in: hub.folder)
        try await again.waits(documents: 6_001)
        try await edge.isSettled()
        #expect(try await edge.replicator("hub")["error"]?.isNull == true)
        #expect(try await edge.revisions() == again.revisions())
        try await stopInTime(edge)
        try await stopInTime(again)
    }

    @Test("the log says when a failure has recovered, when a stop begins and when it is done")
    func saidInTheLog() async throws {
        let port = try freePort()
        let edge = try await AgentProcess.start(Configuration.edge(to: port))
        try await edge.waits("offline") { $0["activity"]?.asString == "offline" }
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        try await edge.save("a", "{}")
        try await eventually("it arrives") { try await hub.has("a") }
        let recovered = try await edge.process.line(containing: "recovered after", in: .errors)
        #expect(recovered.contains("failed attempt"), "\(recovered)")
        #expect(!edge.process.errors.contains("stopping"))
        let stop = try await edge.command("replicator", "hub", "stop")
        #expect(stop.status == 0 && stop.output == "hub: stopping; it starts again with the agent, unless it is stopped with --keep\n", "\(stop)")
        _ = try await edge.process.line(containing: "stopped failed", in: .errors)
        let said = edge.process.errors.split(separator: "\n").filter { $0.contains("replicator=hub") }
        let begun = try #require(said.firstIndex { $0.contains("stopping") }, "\(said)")
        let done = try #require(said.firstIndex { $0.contains("stopped failed") }, "\(said)")
        #expect(begun < done, "\(said)")
        #expect(said[begun].contains("an operator requested it, until nightjar replicator hub start or the agent's next start"), "\(said[begun])")
        try await stopInTime(edge)
        try await stopInTime(hub)
    }

    @Test("SIGTERM on the pushing side of a busy push: exit 0 in time, and it resumes later where it was")
    func edgeStops() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await edge.load("a", 6_000)
        try await eventually("the push is under way") { try await hub.documents("main") > 200 }
        try await stopInTime(edge)
        let arrived = try await hub.documents("main")
        let again = try await AgentProcess.start(try edge.folder.text("nightjar.yaml"), in: edge.folder)
        try await hub.waits(documents: 6_000)
        try await again.isSettled()
        // Nothing that had arrived is pushed once more.
        let pushed = try await again.replicator("hub")["pushed"]?.asInt64 ?? -1
        #expect(pushed <= 6_000 - arrived, "\(pushed) pushed again after \(arrived) had arrived")
        #expect(try await again.revisions() == hub.revisions())
        try await stopInTime(again)
        try await stopInTime(hub)
    }

    @Test("what a replicator counted in all its runs survives restarts of the agent: in status and in /metrics")
    func lifetimeCounts() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        var edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "push"))
        /// The value of a line of `/metrics` of the replicator.
        func metric(_ name: String, of agent: AgentProcess) async throws -> Int64? {
            let line = try await agent.admin.get("/metrics").text.split(separator: "\n").first { $0.hasPrefix("\(name){") && $0.contains("replicator=\"hub\"") }
            return line?.split(separator: " ").last.flatMap { Int64($0) }
        }
        for n in 1...3 { try await edge.save("first-\(n)", "{}") }
        try await hub.waits(documents: 3)
        try await edge.isSettled()
        for (run, pushed) in [Int64(3), 4, 4].enumerated() {
            let status = try await edge.replicator("hub")
            #expect(status["lifetime"]?["pushed"]?.asInt64 == pushed, "run \(run): \(status.text)")
            #expect(try await metric("nightjar_replicator_pushed_total", of: edge) == pushed, "run \(run)")
            #expect(try await metric("nightjar_replicator_failed_total", of: edge) == 0, "run \(run)")
            let sent = try #require(try await metric("nightjar_replicator_sent_bytes_total", of: edge))
            #expect(sent > 0)
            try await stopInTime(edge)
            edge = try await AgentProcess.start(try edge.folder.text("nightjar.yaml"), in: edge.folder)
            try await edge.isSettled()
            #expect(try await edge.replicator("hub")["pushed"]?.asInt64 == 0)
            #expect(try await metric("nightjar_replicator_sent_bytes_total", of: edge) ?? 0 >= sent, "run \(run)")
            guard run == 0 else { continue }
            try await edge.save("second", "{}")
            try await hub.waits(documents: 4)
            try await edge.waits("one more in all runs") { $0["lifetime"]?["pushed"]?.asInt64 == 4 }
        }
        try await stopInTime(edge)
        try await stopInTime(hub)
    }

    /// Edits documents, its own and shared ones, until told to stop.
    private func edits(_ agent: AgentProcess, _ name: String, rounds: Int) async throws {
        for n in 0..<rounds {
            try await agent.save("\(name)-\(n)", "{\"by\":\"\(name)\"}")
            let current = try await agent.get("main", "shared")
            let rev = try current.status == 200 ? current.json["_rev"]?.asString : nil
            let parent = rev.map { "\"_rev\":\"\($0)\"," } ?? ""
            // A conflict with what just came in is part of the game.
            _ = try await agent.put("main", "shared", "{\(parent)\"by\":\"\(name)\",\"n\":\(n)}")
            if n % 5 == 4 { _ = try await agent.admin.request("DELETE", "/api/databases/main/documents/\(name)-\(n)") }
        }
    }

    /// Waits until all agents hold the same, have decided every conflict and are idle, seen in one look: in a loop the last decision
    /// of one agent is work for the next.
    private func converged(_ agents: [AgentProcess]) async throws {
        do {
            try await eventually("all have the same and are at rest") {
                let first = try await agents[0].revisions()
                for agent in agents {
                    if try await agent.database("main")["conflicts_pending"]?.asInt64 != 0 { return false }
                    if try await agent.revisions() != first { return false }
                    if try await !agent.isSettledNow() { return false }
                }
                // What one agent sent while another was looked at.
                for agent in agents where try await agent.revisions() != first { return false }
                return true
            }
        } catch {
            var report = "\(error)"
            let first = try await agents[0].revisions()
            for (index, agent) in agents.enumerated() {
                let own = try await agent.revisions()
                report += "\n\(index): \(own.count) documents, differing: "
                report += Set(own.keys).union(first.keys).filter { own[$0] != first[$0] }.sorted().prefix(10).map { "\($0) \(own[$0] ?? "-") \(first[$0] ?? "-")" }.joined(separator: ", ")
                report += "\n\(try await agent.status()["replicators"]?.text ?? "")\n\(agent.process.errors.suffix(2000))"
            }
            throw SupportError(report)
        }
        for agent in agents { #expect(try await agent.field("by", of: "shared") == agents[0].field("by", of: "shared")) }
    }

    @Test("two agents edit through a hub that restarts in the middle; one of them restarts too")
    func liveEdits() async throws {
        let port = try freePort()
        let hub = try await AgentProcess.start(Configuration.hub(port: port))
        let one = try await AgentProcess.start(Configuration.edge(to: port))
        let two = try await AgentProcess.start(Configuration.edge(to: port))
        async let byOne: Void = edits(one, "one", rounds: 120)
        async let byTwo: Void = edits(two, "two", rounds: 60)
        try await eventually("edits arrive") { try await hub.documents("main") > 20 }
        try await stopInTime(hub)
        let again = try await AgentProcess.start(try hub.folder.text("nightjar.yaml"), in: hub.folder)
        try await byTwo
        try await stopInTime(two)
        let twoAgain = try await AgentProcess.start(try two.folder.text("nightjar.yaml"), in: two.folder)
        try await byOne
        try await edits(twoAgain, "late", rounds: 10)
        try await converged([again, one, twoAgain])
        // 190 edits, every fifth deleted again, and the shared one.
        #expect(try await again.documents("main") == 153)
        for agent in [one, twoAgain, again] { try await stopInTime(agent) }
    }

    @Test("three agents in a loop converge and come to rest")
    func loop() async throws {
        let ports = [try freePort(), try freePort(), try freePort()]
        var agents: [AgentProcess] = []
        for index in 0..<3 {
            let edge = Configuration.edge(to: ports[(index + 1) % 3])
            agents.append(
                try await AgentProcess.start(
                    edge + "listeners: [ { name: edge, databases: [ main ], interface: 127.0.0.1, port: \(ports[index]), disable_tls: true } ]\n"))
        }
        let all = agents
        // Several waves: whether revisions chase each other round the loop is a matter of timing.
        for wave in 0..<3 {
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for (index, agent) in all.enumerated() { tasks.addTask { try await edits(agent, "wave\(wave)-\(index)", rounds: 30) } }
                try await tasks.waitForAll()
            }
            // At rest means that nothing goes round for ever: one more document is one more change everywhere. The last
            // decided conflict may still be on its way when all agree for the first time, hence more than one look.
            try await eventually("nothing goes round any more") {
                let marker = "marker-\(UInt64.random(in: 0 ... .max))"
                let before = try await sequences(all)
                try await all[0].save(marker, "{}")
                for agent in all { try await eventually("the marker went round") { try await agent.has(marker) } }
                try await converged(all)
                return try await zip(before, sequences(all)).allSatisfy { $1 == $0 + 1 }
            }
            for n in 0..<30 where n % 5 != 4 { #expect(try await all[0].has("wave\(wave)-2-\(n)")) }
        }
        for agent in agents { try await stopInTime(agent) }
    }

    private func sequences(_ agents: [AgentProcess]) async throws -> [Int64] {
        var all: [Int64] = []
        for agent in agents { all.append(try await agent.database("main")["collections"]?.asArray?.first?["last_sequence"]?.asInt64 ?? -1) }
        return all
    }

    @Test("SIGHUP applies a changed configuration, leaves what did not change, and refuses a wrong one")
    func reload() async throws {
        let hub = try await AgentProcess.start(Configuration.hub(databases: ["main", "side"]))
        let port = try hub.port("edge")
        let first = Configuration.edge(to: port)
        let edge = try await AgentProcess.start(first)
        let second = first.replacing("databases:\n", with: "databases:\n  side: {}\n")
            + "  - { name: more, database: side, target: \"ws://127.0.0.1:\(port)/side\", type: push, continuous: true }\n"
        try await edge.save("before", "{}")
        try await eventually("it arrives") { try await hub.has("before") }
        try await edge.isSettled()
        let connection = try await hub.listener("edge")["peers"]?.asArray?.first?["address"]

        try edge.folder.write("nightjar.yaml", second.replacing("continuous: true", with: "continous: true"))
        edge.process.send(SIGHUP)
        let refusal = try await edge.process.line(containing: "SIGHUP: the configuration is refused", in: .errors)
        #expect(refusal.contains("nightjar.yaml:") && refusal.contains("continuous"), "\(refusal)")
        #expect(try await edge.command("reload").status == 78)
        let asked = try await edge.process.line(containing: "a reload requested by the agent's user (admin.sock): the configuration is refused", in: .errors)
        #expect(asked.contains("nightjar.yaml:") && asked.contains("continuous"), "\(asked)")
        #expect(try await edge.isWell())

        try edge.folder.write("nightjar.yaml", second)
        edge.process.send(SIGHUP)
        _ = try await edge.process.line(containing: "SIGHUP: database side opened", in: .errors)
        try await edge.save("in-side", "{}", in: "side")
        try await eventually("the new replicator works") { try await hub.has("in-side", in: "side") }
        let peers = try await hub.listener("edge")["peers"]?.asArray ?? []
        #expect(peers.count == 2)
        #expect(peers.contains { $0["address"] == connection }, "the replicator that did not change was restarted")

        try edge.folder.write("nightjar.yaml", first)
        edge.process.send(SIGHUP)
        try await eventually("the replicator is gone") { try await hub.listener("edge")["peers"]?.asArray?.count == 1 }
        try await edge.save("after", "{}")
        try await eventually("the other one goes on") { try await hub.has("after") }
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["address"] == connection)
        try await stopInTime(edge)
        try await stopInTime(hub)
    }

    @Test("a wrong password is retried slowly, and its remedy is named; an unreachable peer is retried soon")
    func permanentAndTransient() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/ada.lua", "return { authenticate_password = function(u, p) return u == 'ada' and p == 'secret' end }")
        let hub = try await AgentProcess.start(Configuration.hub(listener: "authenticator: ada", plugins: true), in: folder)
        let port = try hub.port("edge")
        let nobody = try freePort()
        let edge = try await AgentProcess.start(
            """
            data: data
            admin: { port: 0, open: true }
            databases: { main: {} }
            replicators:
              - { name: wrong, database: main, target: "ws://127.0.0.1:\(port)/main", type: push, continuous: true, authenticator: { username: ada, password: guess }, collections: { _default: { channels: [ x ] } } }
              - { name: unknown, database: main, target: "ws://127.0.0.1:\(port)/nothing", type: push, continuous: true, authenticator: { username: ada, password: secret } }
              - { name: nobody, database: main, target: "ws://127.0.0.1:\(nobody)/main", type: push, continuous: true, max_attempt_wait_time: 1 }
              - { name: right, database: main, target: "ws://127.0.0.1:\(port)/main", type: push, continuous: true, authenticator: { username: ada, password: secret } }
            """)
        for (name, code) in [("wrong", Int64(401)), ("unknown", 404)] {
            try await edge.waits("refused", replicator: name) { $0["activity"]?.asString == "offline" }
            let error = try await edge.replicator(name)["error"]
            #expect(error?["domain"]?.asString == "http")
            #expect(error?["code"]?.asInt64 == code)
            #expect(error?["public_code"]?.asInt64 == 10_000 + code)
            #expect(error?["transient"]?.asBool == false)
            #expect(error?["kind"]?.asString == "needs_action" && error?["remedy"]?.asString?.contains("check") == true)
        }
        try await edge.waits("tries again", replicator: "nobody") { $0["attempt"]?.asInt64 ?? 0 >= 2 }
        #expect(try await edge.replicator("nobody")["error"]?["transient"]?.asBool == true)
        try await edge.save("through", "{}")
        try await eventually("the right one works") { try await hub.has("through") }
        // Somebody comes: the one that waited succeeds without help.
        let late = try await AgentProcess.start(Configuration.hub(port: nobody))
        try await eventually("the late hub gets it") { try await late.has("through") }
        for agent in [edge, hub, late] { try await stopInTime(agent) }
    }
}
