import Documents
import Glibc
import TestSupport
import Testing

/// What peers are told over TLS when a listener goes.
@Suite("Stopping TLS listeners")
struct ListenerStopTests {
    private let selfSigned = "accept_only_self_signed_server_certificate: true"

    @Test("1001 when it is removed, 4001 when it changes or the agent stops, each in time though a peer does not answer")
    func closeCodes() async throws {
        func configuration(_ listeners: (String, String)...) -> String { Configuration.secureHub(listeners.map { (name: $0.0, more: $0.1) }) }
        let hub = try await AgentProcess.start(configuration(("stays", ""), ("changes", ""), ("goes", "")))
        let edge = try await AgentProcess.start(
            Configuration.secureEdge(try ["stays", "changes", "goes"].map { ($0, try hub.target($0), selfSigned) }))
        for name in ["stays", "changes", "goes"] { try await edge.connects(name) }
        let stays = try await SecureWebSocket(hub, "stays")
        let changes = try await SecureWebSocket(hub, "changes")
        let goes = try await SecureWebSocket(hub, "goes")
        let reload = try await hub.reload(configuration(("stays", ""), ("changes", "read_only: true")))
        #expect(reload.status == 0, "\(reload)")
        #expect(try await goes.closeCode() == 1001)
        #expect(try await changes.closeCode() == 4001)
        try await edge.waits("1001 is shown", replicator: "goes") { status in
            // The next attempt finds nobody.
            status["activity"]?.asString != "idle" && status["error"]?["transient"]?.asBool == true
        }
        let log = edge.process.errors.split(separator: "\n")
        #expect(log.contains { $0.contains("goes") && $0.contains("1001") }, "\(edge.process.errors)")
        #expect(log.contains { $0.contains("changes") && $0.contains("4001") }, "\(edge.process.errors)")
        #expect(try await edge.replicator("stays")["activity"]?.asString == "idle")
        hub.process.send(SIGTERM)
        // Five seconds are promised; the rest is for a busy machine.
        let end = try await hub.process.wait(within: .seconds(30))
        #expect(end.status == 0, "\(end)")
        #expect(try await stays.closeCode() == 4001)
        try await edge.waits("it comes back later", replicator: "stays") { $0["activity"]?.asString == "offline" || $0["activity"]?.asString == "connecting" }
        #expect(try await edge.stop().status == 0)
    }

    @Test("with a read-only listener the whole push waits while pulling goes on, and it resumes when the listener accepts writes", arguments: ["wss", "https"])
    func readOnly(_ scheme: String) async throws {
        let port = try freePort()
        func configuration(_ isReadOnly: Bool) -> String {
            Configuration.secureHub([("edge", "couchdb: true, read_only: \(isReadOnly)")]).replacing("port: 0, couchdb", with: "port: \(port), couchdb")
        }
        let hub = try await AgentProcess.start(configuration(true))
        try await hub.save("there", "{}")
        let target = try hub.target("edge", scheme: scheme)
        let edge = try await AgentProcess.start(Configuration.secureEdge([("hub", target, selfSigned)]))
        for number in 0..<20 { try await edge.save("pushed-\(number)", "{}") }
        try await edge.waits("the push waits") { $0["push_refused"]?["code"]?.asInt64 == 403 && $0["activity"] == "idle" }
        try await hub.save("later", "{}")
        try await eventually("the pull goes on") { try await every(edge.has("later"), edge.has("there")) }
        let status = try await edge.replicator("hub")
        #expect(status["failed"] == 0 && status["refused"] == 0 && status["pending"] == 20 && status["error"]?.isNull == true, "\(status.text)")
        let attention = try await edge.status()["attention"]?.asArray?.filter { $0["subject"] == "replicator hub" } ?? []
        #expect(attention.count == 1 && attention.first?["text"]?.asString?.contains("the peer accepts nothing from us") == true, "\(attention)")
        // No document went there to be refused.
        #expect(!hub.process.errors.contains("refused in a push from a peer"), "\(hub.process.errors)")
        let why = try await edge.admin.get("/api/databases/main/why/pushed-0").json["replicators"]?.asArray?.first?["push"]
        #expect(why?["state"] == "pending" && why?["text"]?.asString?.contains("the peer accepts nothing from us") == true, "\(why?.text ?? "")")
        #expect(why?["remedy"]?.asString?.contains("it is tried again by itself") == true, "\(why?.text ?? "")")
        let refused = try await edge.command("replicator", "hub", "refused")
        #expect(refused.output.hasPrefix("no single document is refused: the peer accepts nothing from us: "), "\(refused)")
        let pending = try await edge.command("replicator", "hub", "pending")
        #expect(pending.output.split(separator: "\n").filter { $0.contains("the peer accepts nothing from us: ") }.count == 20, "\(pending)")
        let sooner = try await edge.command("replicator", "hub", "retry-refused")
        #expect(sooner.output == "hub: offering what waits, although the peer accepted nothing so far\n", "\(sooner)")
        try await edge.waits("the push waits again") { $0["push_refused"]?["code"]?.asInt64 == 403 && $0["activity"] == "idle" }

        let reload = try await hub.reload(configuration(false))
        #expect(reload.status == 0, "\(reload)")
        try await edge.post("/api/replicators/hub/start")
        try await eventually("all of it goes there", within: .seconds(60)) { try await every(hub.has("pushed-0"), hub.has("pushed-19")) }
        try await edge.waits("nothing waits") { $0["push_refused"]?.isNull == true && $0["activity"] == "idle" && $0["pending"] == 0 }
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}
