import BLIP
import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import Testing

/// Which documents a replicator requests and accepts, and what a listener serves.
@Suite(.timeLimit(.minutes(10)))
struct SelectionTests {
    private func ids(_ database: TestDatabase, deleted: Bool = false) async throws -> [String] {
        let collection = try database.collection()
        return try await database.database.read {
            try $0.changes(collection, since: 0, limit: 1000, includeBodies: false, includeDeleted: deleted).map(\.id.text).sorted()
        }
    }

    @Test func ifThePeerCannotSelectDocumentsContinuouslyItListsAllAndThisSideSelects() async throws {
        let hasSubscribed = Mutex(false)
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections":
                hasSubscribed.withLock { $0 = false }
                return OutgoingReply(json: "[{}]")
            // Sync Gateway answers like this even after a subscription that it refused.
            case "subChanges" where hasSubscribed.withLock({ isSecond in
                defer { isSecond = true }
                return isSecond
            }):
                return OutgoingReply(error: "HTTP", 500, "blipHandler already has an outstanding subChanges. Cannot have two active subscriptions")
            case "subChanges" where request.body.readableBytes > 0:
                return OutgoingReply(error: "HTTP", 400, "DocIDs filter not supported for continuous subChanges")
            case "proposeChanges": return OutgoingReply(json: "[]")
            default: return OutgoingReply()
            }
        }
        let device = try TestDatabase("device")
        try await device.put("c", "{}")
        let replicator = Replicator(
            ReplicatorConfiguration(device, .pushAndPull, continuous: true) { $0.only { $0.documentIDs = [doc("a"), doc("mine")] } }, listener)
        let statuses = replicator.statusChanges()
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        func subscribed(_ peer: Peer) async -> Int? {
            for await request in peer.requests where request.profile == "subChanges" {
                #expect(request.properties["continuous"] == "true" && request.properties["collection"] == "0")
                return request.body.readableBytes
            }
            return nil
        }
        let first = try #require(await peers.next())
        #expect(await subscribed(first).map { $0 > 0 } == true)
        // It subscribes at once, over a connection without an earlier subscription, and nothing counts as failed.
        let peer = try #require(await peers.next())
        #expect(await subscribed(peer) == 0)
        var activities: [ActivityLevel] = []
        for await status in statuses where activities.last != status.activity {
            #expect(status.activity != .offline && status.error == nil)
            activities.append(status.activity)
            if activities.count(where: { $0 == .busy }) == 2 { break }
        }
        let rows = "[[1,\"a\",\"1-aa\",0,2],[2,\"b\",\"1-bb\",0,2],[3,\"c\",\"2-cc\",2,2]]"
        let reply = await peer.ask("changes", [("collection", "0")], rows)
        #expect(reply.map { String(buffer: $0.body) } == "[[]]" || reply.map { String(buffer: $0.body) } == "[[],0,0]")
        #expect(await peer.ask("rev", [("collection", "0"), ("id", "a"), ("rev", "1-aa"), ("sequence", "1")], "{}")?.error == nil)
        // What was not requested is neither accepted nor removed.
        #expect(try await ids(device) == ["a", "c"])
        // The push continues as well.
        try await device.put("mine", "{}")
        for await request in peer.requests where request.profile == "proposeChanges" && request.body.readableBytes > 2 {
            #expect(String(buffer: request.body).contains("\"mine\""))
            break
        }
        // The peer's inability is remembered.
        await replicator.stop()
        await replicator.start()
        let next = try #require(await peers.next())
        #expect(await subscribed(next) == 0)
        await replicator.stop()
    }

    @Test func deletionsOfWhatTheOtherSideNeverHadAreNotReplicated() async throws {
        let (device, other) = (try TestDatabase("device"), try TestDatabase("other"))
        let hub = Hub(other)
        func settings(_ configuration: inout ReplicatorConfiguration) { configuration.only { $0.skipsDeletions = true } }
        try await other.put("shared", "{}")
        try await other.put("theirs", "{}")
        try await other.put("theirs", "{}", deleted: true)
        // This must not be the first pull into an empty database, which leaves deletions out anyway.
        try await device.put("ours", "{}")
        try await device.put("ours", "{}", deleted: true)
        try await device.put("here", "{}")
        var status = await replicate(device, hub, .pushAndPull, settings)
        #expect(status.error == nil && status.counts.completed == status.counts.total)
        #expect(try await ids(device, deleted: true) == ["here", "ours", "shared"])
        #expect(try await ids(other, deleted: true) == ["here", "shared", "theirs"])
        // A document that both sides have is deleted on both.
        try await other.put("shared", "{}", deleted: true)
        try await device.put("here", "{}", deleted: true)
        status = await replicate(device, hub, .pushAndPull, settings)
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.pulled == 1)
        #expect(try await ids(device) == [])
        #expect(try await ids(other) == [])
    }

    @Test func aListenerServesOnlyItsCollections() async throws {
        let database = try TestDatabase("hub", collections: ["s.open", "s.closed"])
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.collections = [try CollectionName(parsing: "s.open")]
        for (wanted, answer) in [("s.open", "[{}]"), ("s.closed", "[null]"), ("_default", "[null]")] {
            let peer = try await Peer(Hub(configuration, owner: database))
            let reply = await peer.begin([wanted])
            #expect(reply.map { String(buffer: $0.body) } == answer, "\(wanted)")
        }
    }
}
