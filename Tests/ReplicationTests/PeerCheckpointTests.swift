import BLIP
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// Checkpoints that peers store here: they are bounded, and each user has their own.
@Suite(.timeLimit(.minutes(10)))
struct PeerCheckpointTests {
    private func peer(
        _ database: TestDatabase, _ user: String?, isReadOnly: Bool = false, _ change: (inout ReplicationLimits) -> Void = { _ in }
    ) async throws -> Peer {
        var configuration = PassiveConfiguration(
            listener: "hub", database: database.database, principal: Principal(name: user, isReadOnly: isReadOnly))
        change(&configuration.limits)
        return try await Peer(Hub(configuration))
    }

    private func set(_ peer: Peer, _ id: String, _ body: String, after token: String = "") async -> Int? {
        await peer.ask("setCheckpoint", [("client", id), ("rev", token)], body)?.error?.code
    }

    private func get(_ peer: Peer, _ id: String) async -> String? {
        let reply = await peer.ask("getCheckpoint", [("client", id)])
        return reply?.error == nil ? reply.map { String(buffer: $0.body) } : "\(reply?.error?.code ?? 0)"
    }

    @Test func oneUserNeitherSeesNorReplacesAnothersCheckpoints() async throws {
        let database = try TestDatabase("hub")
        let users = ["anna", "ben", nil]
        for user in users {
            let peer = try await peer(database, user)
            #expect(await get(peer, "cp") == "404")
            // With another user's token it is a conflict; without a token it is a first checkpoint.
            #expect(await set(peer, "cp", "{\"local\":9}", after: "1-cc") == 409)
            #expect(await set(peer, "cp", "{\"time\":\"\(user ?? "")\"}") == nil)
        }
        for user in users { #expect(await get(try await peer(database, user), "cp") == "{\"time\":\"\(user ?? "")\"}") }
        // The same holds for the answer to getCollections.
        let eve = try await peer(database, "eve")
        #expect((await eve.ask("getCollections", [], "{\"checkpoint_ids\":[\"cp\"],\"collections\":[\"_default\"]}")).map { String(buffer: $0.body) } == "[{}]")
    }

    @Test func oneUserCannotCrowdOutAnothersCheckpoints() async throws {
        let database = try TestDatabase("hub")
        func limit(_ limits: inout ReplicationLimits) { limits.maximumCheckpoints = 5 }
        let anna = try await peer(database, "anna", limit)
        #expect(await set(anna, "mine", "{\"local\":1}") == nil)
        for user in ["ben", nil] {
            let hostile = try await peer(database, user, limit)
            for number in 0..<20 { #expect(await set(hostile, "cp-\(number)", "{\"local\":1}") == nil) }
            #expect(await get(hostile, "cp-14") == "404")
            #expect(await get(hostile, "cp-15") == "{\"local\":1}")
        }
        #expect(await get(anna, "mine") == "{\"local\":1}")
    }

    @Test func aTooLargeCheckpointIsRefusedWithAMessage() async throws {
        let peer = try await peer(TestDatabase("hub"), "anna") { $0.maximumCheckpointBytes = 100 }
        let reply = await peer.ask("setCheckpoint", [("client", "cp")], "{\"x\":\"\(String(repeating: "x", count: 100))\"}")
        #expect(reply?.error?.code == 413 && reply?.error?.message.contains("max_checkpoint_bytes is 100") == true)
    }

    /// A peer that may not push keeps its place in what it pulls: a refusal would stop Couchbase Lite permanently.
    @Test(arguments: [true, false]) func aReaderKeepsItsCheckpoint(_ byListener: Bool) async throws {
        let (hub, device) = (try TestDatabase("hub"), try TestDatabase("device"))
        try await hub.fill(0..<20)
        var configuration = PassiveConfiguration(
            listener: "hub", database: hub.database, principal: Principal(name: "anna", isReadOnly: !byListener))
        configuration.isReadOnly = byListener
        for expected in [20, 0] as [UInt64] {
            let status = await replicate(device, Hub(configuration), .pull)
            #expect(status.error == nil && status.counts.total == expected)
        }
    }
}
