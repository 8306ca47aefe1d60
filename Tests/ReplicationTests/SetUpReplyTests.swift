import BLIP
import Interfaces
import NIOCore
import Replication
import Testing

/// A peer's answers while a session is set up are read on the event loop that the connection shares with others, so that they must be short.
@Suite(.timeLimit(.minutes(10)))
struct SetUpReplyTests {
    private static func checkpoint(bytes: Int) -> String { "{\"local\":1,\"x\":\"\(String(repeating: "x", count: bytes))\"}" }

    private func run(_ listener: FakeListener) async throws -> ReplicatorStatus {
        let a = try TestDatabase("a")
        try await a.fill(0..<3)
        return await Replicator(ReplicatorConfiguration(a, .push) { $0.retry = .init(maximumAttempts: 1) }, listener).run()
    }

    @Test(arguments: [0, 3 << 20]) func aLongListOfCollections(_ bytes: Int) async throws {
        let status = try await run(
            FakeListener { request in
                switch request.profile {
                case "getCollections": OutgoingReply(json: "[\(Self.checkpoint(bytes: bytes))]")
                case "proposeChanges": OutgoingReply(json: "[]")
                default: OutgoingReply()
                }
            })
        check(status, isRefused: bytes > 0, "max_collections_bytes is 524288")
    }

    @Test(arguments: [0, 3 << 20]) func aLongCheckpoint(_ bytes: Int) async throws {
        let status = try await run(
            FakeListener { request in
                switch request.profile {
                case "getCollections": OutgoingReply(error: "BLIP", 404, "no handler for message")
                case "getCheckpoint": OutgoingReply(json: Self.checkpoint(bytes: bytes), ["rev": "1-cc"])
                case "proposeChanges": OutgoingReply(json: "[]")
                default: OutgoingReply()
                }
            })
        check(status, isRefused: bytes > 0, "max_checkpoint_bytes is 131072")
    }

    private func check(_ status: ReplicatorStatus, isRefused: Bool, _ limit: String) {
        if isRefused {
            #expect(status.error?.code == 413 && status.error?.message.contains(limit) == true, "\(String(describing: status.error))")
            #expect(status.error?.kind == .needsAction && status.error?.remedy != nil && status.counts.pushed == 0)
        } else {
            #expect(status.error == nil && status.counts.pushed == 3, "\(String(describing: status.error))")
        }
    }
}
