import Documents
import TestSupport
import Testing

/// What is spoken with each peer, as operators see it.
@Suite struct PeerProtocolTests {
    @Test("status, metrics and log of both sides name the protocol", arguments: [
        ("ws", "{}", "BLIP_3+CBMobile_3", "CBMobile_3"), ("ws", "{ version_vectors: true }", "BLIP_3+CBMobile_4", "CBMobile_4"),
        ("http", "{}", "CouchDB", "CouchDB"),
    ])
    func spoken(_ scheme: String, _ database: String, _ name: String, _ short: String) async throws {
        let hub = try await AgentProcess.start(Configuration.hub(database: database))
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start(
            Configuration.edge(to: port, scheme: scheme).replacing("main: {}", with: "main: \(database)"))
        try await edge.isSettled()
        #expect(try await edge.replicator("hub")["protocol"]?.asString == name)
        let text = try await edge.command("status").output
        #expect(text.split(separator: "\n").contains { $0.contains("PROTOCOL") && $0.hasPrefix("REPLICATOR") }, "\(text)")
        #expect(text.split(separator: "\n").contains { $0.hasPrefix("hub ") && $0.contains(" \(short) ") }, "\(text)")
        #expect(try await edge.metrics().contains("nightjar_replicator_protocol{replicator=\"hub\",protocol=\"\(name)\"} 1"))
        #expect(edge.process.errors.split(separator: "\n").contains { $0.contains(" connected") && $0.contains("protocol=\(name)") }, "\(edge.process.errors)")
        // The other side.
        let peers = try await hub.listener("edge")["peers"]?.asArray ?? []
        if scheme == "ws" {
            #expect(peers.map { $0["protocol"]?.asString } == [name])
            let table = try await hub.command("status").output
            #expect(table.split(separator: "\n").contains { $0.hasPrefix("127.0.0.1:") && $0.contains(" \(short) ") }, "\(table)")
            #expect(try await hub.metrics().contains("nightjar_listener_connections_by_protocol{listener=\"edge\",protocol=\"\(name)\"} 1"))
            #expect(hub.process.errors.split(separator: "\n").contains { $0.contains("peer connected") && $0.contains("protocol=\(name)") })
        }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a plugin is told which protocol is used", arguments: [("{}", "CBMobile_3"), ("{ version_vectors: true }", "CBMobile_4")])
    func toldToPlugins(_ database: String, _ short: String) async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("plugins/spoken.lua", "return { push_filter = function(doc, ctx) return doc.by == ctx.protocol end }")
        let hub = try await AgentProcess.start(Configuration.hub(database: database, listener: "push_filter: spoken", plugins: true), in: folder)
        for name in ["CBMobile_3", "CBMobile_4"] { try await hub.save(name, "{\"by\":\"\(name)\"}") }
        let edge = try await AgentProcess.start(
            Configuration.edge(to: try hub.port("edge"), type: "pull", continuous: false).replacing("main: {}", with: "main: \(database)"))
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        #expect(try await edge.documents("main") == 1)
        #expect(try await edge.get("main", short).status == 200)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("before the first connection no protocol is named, and after the last one its protocol")
    func withoutConnection() async throws {
        let edge = try await AgentProcess.start(Configuration.edge(to: 1))
        try await edge.waits("offline") { $0["activity"]?.asString == "offline" }
        #expect(try await edge.replicator("hub")["protocol"]?.isNull == true)
        #expect(try await !edge.metrics().contains("nightjar_replicator_protocol"))
        let hub = try await AgentProcess.start(Configuration.hub())
        let other = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await other.isSettled()
        #expect(try await hub.stop().status == 0)
        try await other.waits("offline") { $0["activity"]?.asString == "offline" }
        #expect(try await other.replicator("hub")["protocol"]?.asString == "BLIP_3+CBMobile_3")
    }

    @Test("a list of network interfaces is tried in order, and the next one only where the other side is not reached")
    func interfaces() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let port = try hub.port("edge")
        let edge = try await AgentProcess.start(
            Configuration.edge(to: port, replicator: "network_interface: [ nosuch0, 127.0.0.3 ]"))
        try await edge.isSettled()
        let peer = try #require(try await hub.listener("edge")["peers"]?.asArray?.first)
        #expect(peer["address"]?.asString?.hasPrefix("127.0.0.3:") == true, "\(peer.text)")
        #expect(edge.process.errors.contains("connected over 127.0.0.3: the other side cannot be reached over the interfaces listed before it"))
        #expect(try await edge.stop().status == 0)
        // The first one reaches it: nobody looks at the second.
        let first = try await AgentProcess.start(Configuration.edge(to: port, replicator: "network_interface: [ 127.0.0.4, nosuch0 ]"))
        try await first.isSettled()
        #expect(try await hub.listener("edge")["peers"]?.asArray?.contains { $0["address"]?.asString?.hasPrefix("127.0.0.4:") == true } == true)
        // A peer that refuses was reached.
        let refused = try await AgentProcess.start(Configuration.edge(to: port, database: "other", replicator: "network_interface: [ 127.0.0.4, nosuch0 ]"))
        try await refused.waits("refused") { $0["error"]?["public_code"]?.asInt64 == 10404 }
        // None reaches it: each is named with its reason.
        let none = try await AgentProcess.start(Configuration.edge(to: port, replicator: "network_interface: [ nosuch0, nosuch1 ]"))
        try await none.waits("unknown") { $0["error"]?["public_code"]?.asInt64 == 5027 }
        let message = try await none.replicator("hub")["error"]?["message"]?.asString ?? ""
        #expect(message.contains("over nosuch0: ") && message.contains("over nosuch1: "), "\(message)")
    }
}
