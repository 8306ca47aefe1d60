import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing
import Transport

/// Replication over real sockets on the loopback interface.
@Suite(.timeLimit(.minutes(10)))
struct SocketTests {
    private struct Delegate: ListenerDelegate {
        let hub: Hub
        func authorize(_ request: UpgradeRequest) async -> UpgradeDecision { .accept() }
        func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) { hub.take(transport) }
    }

    /// Runs a test with a listener for a database and a connector to it.
    private func with(
        _ database: TestDatabase, _ body: (_ target: String, _ client: WebSocketClient, _ hub: Hub) async throws -> Void
    ) async throws {
        let hub = Hub(database)
        let listener = try await WebSocketListener.bind(
            .init(interface: "127.0.0.1", port: 0), delegate: Delegate(hub: hub), group: loops, logger: quietLogger())
        let target = "ws://127.0.0.1:\(listener.port)/db"
        let client = WebSocketClient(.init(url: try EndpointURL(target)), group: loops, environment: .system)
        do { try await body(target, client, hub) } catch {
            await listener.stop()
            throw error
        }
        await listener.stop()
    }

    @Test func bothWaysWithBlobs() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await a.fill(0..<1_000, prefix: "a-")
        try await b.fill(0..<1_000, prefix: "b-")
        let digest = try await a.blob([UInt8](repeating: 9, count: 5 << 20))
        try await a.put("blob", "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"content_type\":\"text/plain\"}}")
        try await with(b) { target, client, hub in
            let status = await Replicator(ReplicatorConfiguration(a, to: target), client).run()
            #expect(status.error == nil && status.counts.pushed == 1_001 && status.counts.pulled == 1_000)
            let (here, there) = (try await a.contents(), try await b.contents())
            #expect(here == there)
        }
    }

    @Test func continuousReplicationReconnectsAfterADrop() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await with(b) { target, client, hub in
            let time = JumpingTime()
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, continuous: true), client, environment: time.environment)
            await replicator.start()
            await replicator.wait { $0.activity == .idle }
            try await a.fill(0..<50, prefix: "a-")
            try await b.wait { try await $0.count() == 50 }
            await hub.cut()
            try await b.fill(0..<50, prefix: "b-")
            try await a.wait { try await $0.count() == 100 }
            // A machine under load may lose the next connection as well.
            #expect(time.sleeps.first == 2)
            #expect(await replicator.wait { $0.activity == .idle && $0.counts.completed == $0.counts.total } != nil)
            await replicator.stop()
        }
    }

    @Test func nobodyListens() async throws {
        let a = try TestDatabase("a")
        var target = ""
        try await with(try TestDatabase("b")) { address, _, _ in target = address }
        let time = JumpingTime()
        let client = WebSocketClient(.init(url: try EndpointURL(target)), group: loops, environment: .system)
        let status = await Replicator(ReplicatorConfiguration(a, to: target), client, environment: time.environment).run()
        #expect(status.error?.domain == .network && status.error?.code == 19)
        #expect(time.sleeps.count == 9)
    }
}
