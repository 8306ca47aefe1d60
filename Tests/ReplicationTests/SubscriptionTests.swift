import BLIP
import Documents
import Glibc
import NIOCore
import Replication
import Testing

/// What a pulling peer asks for in its subscription, and what a pushing peer is told when the disk fails.
@Suite(.timeLimit(.minutes(5)))
struct SubscriptionTests {
    /// Reads what a one-shot subscription brings, until everything has been offered and this many documents have arrived.
    private func read(_ requests: inout AsyncStream<IncomingRequest>.Iterator, _ count: Int) async -> [String] {
        var (ids, isCaughtUp) = ([String](), false)
        while ids.count < count || !isCaughtUp, let request = await requests.next() {
            if request.profile == "rev", let id = request.properties["id"] { ids.append(id) }
            if request.profile == "changes", request.isNoReply { isCaughtUp = true }
        }
        return ids
    }

    @Test(arguments: [1, 3, 7]) func aPullersMaxHistoryIsObeyed(limit: Int) async throws {
        let database = try TestDatabase("hub")
        for n in 0..<12 { try await database.put("long", "{\"n\":\(n)}") }
        let peer = try await Peer(Hub(database)) { request in
            guard request.profile == "changes" else { return OutgoingReply() }
            return OutgoingReply(json: "[[]]", ["maxHistory": String(limit)])
        }
        await peer.begin()
        _ = await peer.ask("subChanges", [("collection", "0")])
        var requests = peer.requests.makeAsyncIterator()
        while let request = await requests.next() {
            guard request.profile == "rev" else { continue }
            #expect(request.properties["rev"]?.hasPrefix("12-") == true)
            let history = (request.properties["history"] ?? "").split(separator: ",")
            #expect(history.count == limit && history.first?.hasPrefix("11-") == true, "\(history)")
            break
        }
    }

    @Test func aSecondSubscriptionThatEndsWorksOnTheSameConnection() async throws {
        let database = try TestDatabase("hub")
        try await database.put("first", "{}")
        let peer = try await Peer(Hub(database)) { request in
            request.profile == "changes" ? OutgoingReply(json: "[[]]") : OutgoingReply()
        }
        await peer.begin()
        var requests = peer.requests.makeAsyncIterator()
        #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
        #expect(await read(&requests, 1) == ["first"])
        try await database.put("second", "{}")
        #expect(await peer.ask("subChanges", [("collection", "0"), ("since", "1")])?.error == nil)
        #expect(await read(&requests, 1) == ["second"])
        #expect(await peer.isAlive())
    }

    /// A final answer would lose the peer's edit.
    @Test func aBlobThatTheDiskDoesNotTakeIsAcceptedLater() async throws {
        let database = try TestDatabase("hub")
        let pusher = try await PhotoPusher(Array("a photo".utf8), to: database)
        let blobs = database.blobsFolder
        #expect(rename(blobs, blobs + "-away") == 0)
        #expect(await pusher.push() == 503)
        #expect(try await database.get("photo") == nil)
        #expect(rename(blobs + "-away", blobs) == 0)
        #expect(await pusher.push() == nil)
        #expect(try await database.get("photo") != nil)
    }
}
