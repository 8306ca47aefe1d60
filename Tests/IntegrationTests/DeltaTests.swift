import Documents
import TestSupport
import Testing

/// Changes as deltas, between two real agents.
@Suite("Deltas")
struct DeltaTests {
    /// What a change may cost on the wire, of the body's size: 3 %, and on a busy machine a checkpoint of its own.
    @Test("one field of a 10 KB document is changed: a small part of it travels, and status says what was saved")
    func oneField() async throws {
        let hub = try await AgentProcess.start(Configuration.hub())
        let relay = try CountingRelay(to: try hub.port("edge"))
        let edge = try await AgentProcess.start(Configuration.edge(to: relay.port))
        // Text that does not compress away.
        var state: UInt64 = 1
        let text = (0..<1_000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return String(state >> 12, radix: 36)
        }.joined().prefix(10_000)
        var revision = try await edge.save("doc", "{\"n\":0,\"text\":\"\(text)\"}")
        try await hub.waits(documents: 1)
        try await edge.isSettled()
        let changes = 20
        let before = relay.bytes
        for n in 1...changes {
            revision = try await edge.save("doc", "{\"_rev\":\"\(revision)\",\"n\":\(n),\"text\":\"\(text)\"}")
            try await eventually("change \(n) has arrived") { try await hub.revisions() == edge.revisions() }
            try await edge.isSettled()
        }
        let each = (relay.bytes - before) / changes
        #expect(each <= 400, "\(each) bytes for a change of a body of \(text.utf8.count)")
        let delta = try await edge.replicator("hub")["delta"]
        #expect(delta?["sent"]?.asInt64 == Int64(changes) && delta?["not_used"]?["refused"]?.asInt64 == 0, "\(delta?.text ?? "")")
        #expect(delta?["bytes_saved"]?.asInt64 ?? 0 > Int64(changes) * 9_900)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }
}
