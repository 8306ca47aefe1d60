import BLIP
import NIOCore
import Synchronization
import Testing

@testable import Replication

/// Answers to revisions that were sent for an earlier subscription on the same connection.
@Suite(.timeLimit(.minutes(10)))
struct LateReplyTests {
    @Test func aLateReplyIsNotTakenForOneToTheNextSubscription() async throws {
        let database = try TestDatabase("hub")
        try await database.put("a", "{}")
        let numbers = Mutex([UInt64]())
        let hub = Hub(database)
        let peer = try await Peer(hub) { request in
            switch request.profile {
            case "changes": return OutgoingReply(json: "[[]]")
            case "rev":
                numbers.withLock { $0.append(request.number) }
                return nil
            default: return OutgoingReply()
            }
        }
        await peer.begin()
        var requests = peer.requests.makeAsyncIterator()
        for _ in 0..<2 {
            #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
            while let request = await requests.next(), request.profile != "rev" {}
        }
        // The peer's replies are made independently of the stream of requests, so that this has to wait for both.
        while numbers.withLock({ $0.count }) < 2 { await Task.yield() }
        let (first, second) = numbers.withLock { ($0[0], $0[1]) }
        // The replies are sent before the next request.
        for reply in [OutgoingReply(error: "HTTP", 500), OutgoingReply()] {
            peer.reply(to: reply.error == nil ? second : first, reply)
            #expect(await peer.isAlive())
            #expect(hub.counters.snapshot.pushed == (reply.error == nil ? 1 : 0))
        }
        #expect(hub.counters.snapshot.completed == hub.counters.snapshot.total)
    }

    /// A peer that subscribes again and again, wants everything and answers nothing gets no more than one subscription may have under way.
    @Test func revisionsThatAreNeverAnsweredAreBounded() async throws {
        let database = try TestDatabase("hub")
        let blob = try await database.blob([1])
        for number in 0..<4 { try await database.put("doc-\(number)", "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(blob)\"}}") }
        var configuration = PassiveConfiguration(listener: "hub", database: database.database)
        configuration.limits.revisionsInFlight = 10
        let peer = try await Peer(Hub(configuration)) { request in
            switch request.profile {
            case "changes": OutgoingReply(json: "[[],[],[],[]]")
            case "rev": nil
            default: OutgoingReply()
            }
        }
        await peer.begin()
        var requests = peer.requests.makeAsyncIterator()
        for _ in 0..<3 {
            #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
            var revisions = 0
            while revisions < 4, let request = await requests.next() { revisions += request.profile == "rev" ? 1 : 0 }
            #expect(await peer.ask("getAttachment", [("collection", "0"), ("digest", blob)])?.error == nil)
        }
        #expect(await peer.ask("subChanges", [("collection", "0")])?.error?.code == 503)
        #expect(await peer.isAlive())
        // Blobs of what was sent for the ended subscription can no longer be requested by digest alone.
        #expect(await peer.ask("unsubChanges", [("collection", "0")])?.error == nil)
        #expect(await peer.ask("getAttachment", [("collection", "0"), ("digest", blob)])?.error?.code == 403)
        #expect(await peer.ask("getAttachment", [("collection", "0"), ("digest", blob), ("docID", "doc-0")])?.error == nil)
    }
}
