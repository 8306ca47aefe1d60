import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// Changes sent as deltas, in both directions and by both sides of a connection.
@Suite(.timeLimit(.minutes(10)))
struct DeltaTests {
    /// A body that is large enough for a delta, with text that does not repeat itself.
    private func body(_ n: Int, _ more: String = "") -> String {
        "{\"n\":\(n),\"text\":\"\((0..<400).map { String($0 * 7_919 % 10_007, radix: 36) }.joined())\"\(more)}"
    }

    private func rev(_ id: String, _ revision: String, _ more: [(String, String)] = []) -> [(String, String)] {
        [("id", id), ("rev", revision), ("sequence", "1"), ("collection", "0")] + more
    }

    @Test(arguments: [Subprotocol.generation3, .generation4]) func bothWays(_ subprotocol: Subprotocol) async throws {
        let (a, b) = try (
            TestDatabase("a") { $0.versionsEdits = subprotocol == .generation4 }, TestDatabase("b") { $0.versionsEdits = subprotocol == .generation4 }
        )
        let hub = Hub(PassiveConfiguration(listener: "hub", database: b.database, subprotocol: subprotocol), owner: b)
        for index in 0..<20 { try await a.put("doc-\(index)", body(index)) }
        await replicate(a, hub)
        for index in 0..<10 { try await a.put("doc-\(index)", body(index + 100)) }
        for index in 10..<20 { try await b.put("doc-\(index)", body(index + 100, ",\"list\":[1,{\"x\":[]}]")) }
        // These are different connections from those that brought the bases.
        let status = await replicate(a, hub)
        #expect(try await a.contents() == b.contents())
        #expect(try await a.body("doc-15") == body(115, ",\"list\":[1,{\"x\":[]}]"))
        let (ours, theirs) = (status.counts.deltas, hub.counters.snapshot.deltas)
        #expect(ours.sent == 10 && ours.applied == 10 && ours.failed == 0 && ours.refused == 0, "\(ours)")
        #expect(theirs.sent == 10 && theirs.applied == 10 && theirs.failed == 0 && theirs.refused == 0, "\(theirs)")
        #expect(ours.bytesSaved > 20 * 700 && ours.bytesSaved == theirs.bytesSaved, "\(ours)")
    }

    @Test func eitherSideMayDeclineDeltas() async throws {
        for (active, passive) in [(false, true), (true, false)] {
            let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
            var configuration = PassiveConfiguration(listener: "hub", database: b.database)
            configuration.usesDeltas = passive
            let hub = Hub(configuration, owner: b)
            for round in 0..<2 {
                try await a.put("up", body(round))
                try await b.put("down", body(round))
                let status = await replicate(a, hub) { $0.usesDeltas = active }
                #expect(status.counts.deltas == DeltaCounts() && hub.counters.snapshot.deltas == DeltaCounts())
            }
            #expect(try await a.contents() == b.contents())
        }
    }

    @Test func aMissingBaseIsNoObstacle() async throws {
        let a = try TestDatabase("a")
        let b = try TestDatabase("b") { $0.deltaBases = nil }
        let hub = Hub(b)
        try await b.put("down", body(1))
        await replicate(a, hub)
        try await b.put("down", body(2))
        await replicate(a, hub)
        #expect(hub.counters.snapshot.deltas.withoutBase == 1 && hub.counters.snapshot.deltas.sent == 0)
        #expect(try await a.contents() == b.contents())
    }

    @Test func theWholeBodyFollowsARefusal() async throws {
        let (a, refused) = (try TestDatabase("a"), body(2))
        let first = try await a.put("x", body(1))
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": OutgoingReply(json: "[{}]")
            case "proposeChanges": OutgoingReply(json: "[]", ["deltas": "true", "blobs": "true"])
            case "rev" where request.properties["deltaSrc"] != nil: OutgoingReply(error: "HTTP", 422, "no base")
            default: OutgoingReply()
            }
        }
        let replicator = Replicator(ReplicatorConfiguration(a, .push, continuous: true), listener)
        await replicator.start()
        await replicator.wait { $0.counts.pushed == 1 && $0.activity == .idle }
        let second = try await a.put("x", refused)
        let status = try #require(await replicator.wait { $0.counts.pushed == 2 && $0.activity == .idle })
        #expect(status.error == nil && status.counts.failed == 0)
        #expect(status.counts.deltas.sent == 1 && status.counts.deltas.refused == 1 && status.counts.deltas.bytesSaved == 0)
        await replicator.stop()
        var peers = listener.peers.makeAsyncIterator()
        let peer = try #require(await peers.next())
        var revisions: [IncomingRequest] = []
        for await request in peer.requests where request.properties["rev"] == second.text && request.profile == "rev" { revisions.append(request) }
        #expect(revisions.map { $0.properties["deltaSrc"] } == [first.text, nil])
        #expect(revisions.map { String(buffer: $0.body) } == ["{\"n\":2}", refused])
    }

    @Test func aPeerIsToldOfADeltaThatCannotBeApplied() async throws {
        let b = try TestDatabase("b")
        let hub = Hub(b)
        let peer = try await Peer(hub)
        await peer.begin()
        let first = try await b.put("x", body(1))
        let proposed = await peer.ask("proposeChanges", [("collection", "0")], "[[\"x\",\"2-bb\",\"\(first)\"]]")
        #expect(proposed?.properties["deltas"] == "true")
        let after = [("history", first.text)]
        for (base, delta) in [
            ("1-ff", "{\"n\":2}"), (first.text, "{\"n\":{\"x\":1}}"), (first.text, "[]"), (first.text, ""), (first.text, "{\"absent\":[]}"), ("odd", "{}"),
        ] {
            let reply = await peer.ask("rev", rev("x", "2-bb", after + [("deltaSrc", base)]), delta)
            #expect(reply?.error?.code == 422, "\(base) \(delta)")
        }
        let tombstone = await peer.ask("rev", rev("x", "2-bb", after + [("deltaSrc", first.text), ("deleted", "1")]), "{}")
        #expect(tombstone?.error?.code == 422)
        #expect(try await b.get("x")?.revision == first)
        #expect(await peer.ask("rev", rev("x", "2-bb", after + [("deltaSrc", first.text)]), "{\"n\":2}")?.error == nil)
        #expect(try await b.body("x") == body(2))
        // A delta that comes too late is a conflict, as it would be with its whole body.
        #expect(await peer.ask("rev", rev("x", "2-cc", after + [("deltaSrc", first.text)]), "{\"n\":3}")?.error?.code == 409)
        #expect(try await b.body("x") == body(2))
        #expect(hub.counters.snapshot.deltas.failed == 6)
    }

    /// Each delta has a few bytes but makes a large body: all are stored, and few are in memory at a time.
    @Test func manyDeltasOfALargeDocumentAreBounded() async throws {
        let b = try TestDatabase("b")
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.limits.deltaBatchBytes = 1 << 20
        configuration.limits.insertionBatchBytes = 1 << 20
        let hub = Hub(configuration, owner: b)
        let peer = try await Peer(hub)
        await peer.begin()
        let text = String(repeating: "0123456789abcdef", count: 50_000)
        let first = try await b.put("x", "{\"text\":\"\(text)\"}")
        await withTaskGroup(of: Int?.self) { group in
            for index in 0..<100 {
                let wanted = rev("x", "2-\(String(index + 4_096, radix: 16))", [("history", first.text), ("deltaSrc", first.text)])
                group.addTask { await peer.ask("rev", wanted, "{\"n\":\(index)}")?.error?.code }
            }
            var codes: [Int?] = []
            for await code in group { codes.append(code) }
            #expect(codes.count { $0 == nil } == 1 && codes.count { $0 == 409 } == 99, "\(codes)")
        }
        #expect(try await b.get("x")?.body.count ?? 0 > 800_000)
    }

    /// Of sixty deltas with the same base, only one is made into a body: the others, whatever they contain, are in conflict with it, as full bodies would be.
    @Test(arguments: [Subprotocol.generation3, .generation4]) func aDeltaInConflictIsNotMadeIntoABody(_ subprotocol: Subprotocol) async throws {
        let b = try TestDatabase("b")
        let hub = Hub(
            PassiveConfiguration(listener: "hub", database: b.database, subprotocol: subprotocol), owner: b, peersHaveBothNames: subprotocol == .generation3)
        let peer = try await Peer(hub)
        await peer.begin()
        let first = try await b.put("x", body(1))
        // Each by a different author, if versions have authors.
        let authors = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").map { "18e9000000000005@\($0)UxJQ0VBTElDRUFMSUNFQQ" }
        func revision(_ index: Int) -> String { subprotocol == .generation4 ? authors[index] : "2-\(String(index + 4_096, radix: 16))" }
        var stored: Int?
        await withTaskGroup(of: (Int, Int?).self) { group in
            for index in 0..<60 {
                let wanted = rev("x", revision(index), [("history", first.text), ("deltaSrc", first.text)])
                group.addTask { (index, await peer.ask("rev", wanted, "{\"n\":\(index)}")?.error?.code) }
            }
            var codes: [Int?] = []
            for await (index, code) in group {
                codes.append(code)
                if code == nil { stored = index }
            }
            #expect(codes.count { $0 == nil } == 1 && codes.count { $0 == 409 } == 59, "\(codes)")
        }
        let winner = try #require(stored)
        #expect(try await b.body("x") == body(winner))
        // A revision that is already here is accepted again, and a conflict from another connection is just as cheap.
        let again = rev("x", revision(winner), [("history", first.text), ("deltaSrc", first.text)])
        #expect(await peer.ask("rev", again, "{\"n\":\(winner)}")?.error == nil)
        let other = try await Peer(hub)
        await other.begin()
        let late = rev("x", revision(61), [("history", first.text), ("deltaSrc", first.text)])
        #expect(await other.ask("rev", late, "{\"n\":61}")?.error?.code == 409)
        // A base that is missing here gets the usual answer, even if the revision would be refused.
        let unknown = rev("x", revision(61), [("history", first.text), ("deltaSrc", "1-ff")])
        #expect(await other.ask("rev", unknown, "{\"n\":61}")?.error?.code == 422)
        for peer in [peer, other] { #expect(await peer.isAlive()) }
        let counts = hub.counters.snapshot
        #expect(counts.deltas.received == 63 && counts.deltas.applied == 1 && counts.deltas.failed == 1, "\(counts.deltas)")
        // They are counted just like full bodies.
        #expect(counts.pulled == 1 && counts.failed == 60 && counts.completed == counts.total, "\(counts)")
    }

    /// A filter is asked first: a revision that it rejects gets the filter's answer, even if it is in conflict as well.
    @Test func aFilterIsAskedBeforeAConflictIsDetected() async throws {
        let b = try TestDatabase("b")
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.pullFilter = TestFilter { _, _ in .reject }
        let hub = Hub(configuration, owner: b)
        let peer = try await Peer(hub)
        await peer.begin()
        let first = try await b.put("x", body(1))
        try await b.put("x", body(2))
        #expect(await peer.ask("rev", rev("x", "2-bb", [("history", first.text), ("deltaSrc", first.text)]), "{\"n\":3}")?.error?.code == 403)
        #expect(await peer.isAlive())
        #expect(hub.counters.snapshot.deltas.applied == 1)
    }

    /// The base of the second delta is the revision that the first delta makes.
    @Test func aDeltaWaitsForTheRevisionBeforeIt() async throws {
        let b = try TestDatabase("b")
        let hub = Hub(b)
        let peer = try await Peer(hub)
        await peer.begin()
        let first = try await b.put("x", body(1))
        peer.send(peer.request("rev", rev("x", "2-bb", [("history", first.text), ("deltaSrc", first.text)]), "{\"n\":2}"))
        #expect(await peer.ask("rev", rev("x", "3-cc", [("history", "2-bb,\(first)"), ("deltaSrc", "2-bb")]), "{\"n\":3}")?.error == nil)
        #expect(try await b.body("x") == body(3))
        #expect(await peer.isAlive())
        let counts = hub.counters.snapshot.deltas
        #expect(counts.applied == 2 && counts.failed == 0, "\(counts)")
    }

    /// From the history of the next revision, a peer learns the id of one that was kept from it, and claims to have it.
    @Test func noDeltaRevealsABaseThatThePeerMayNotHave() async throws {
        let b = try TestDatabase("b")
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.pushFilter = TestFilter { document, _ in text(document.body)?.contains("secret") == true ? .reject : .pass }
        let hub = Hub(configuration, owner: b)
        let secret = try await b.put("x", body(1, ",\"secret\":\"s3\""))
        try await b.put("x", body(2))
        let peer = try await Peer(hub) { request in
            request.profile == "changes" ? OutgoingReply(json: "[[\"\(secret)\"]]", ["deltas": "true", "blobs": "true"]) : OutgoingReply()
        }
        await peer.begin()
        _ = await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])
        var requests = peer.requests.filter { $0.profile == "rev" }.makeAsyncIterator()
        let whole = try #require(await requests.next())
        #expect(whole.properties["deltaSrc"] == nil && String(buffer: whole.body) == body(2))
        // Nor does it help to push on top of it: the answer is the same as for a base that does not exist.
        let secretOnTop = await peer.ask("rev", rev("x", "2-ee", [("history", secret.text), ("deltaSrc", secret.text)]), "{}")
        let unknown = await peer.ask("rev", rev("x", "2-ee", [("history", secret.text), ("deltaSrc", "1-ff")]), "{}")
        #expect(secretOnTop?.error?.code == 422 && secretOnTop?.error?.message == unknown?.error?.message)
        #expect(hub.counters.snapshot.deltas.notOpen == 1)
    }

    /// What was sent over the connection can be a base, even if the peer may not have everything.
    @Test func aPeerWithAFilterGetsDeltasOfWhatItHas() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        var configuration = PassiveConfiguration(listener: "hub", database: b.database)
        configuration.pushFilter = TestFilter { _, _ in .pass }
        let hub = Hub(configuration, owner: b)
        try await b.put("x", body(1))
        await replicate(a, hub)
        try await b.put("x", body(2))
        let status = await replicate(a, hub)
        #expect(status.counts.deltas.applied == 1 && hub.counters.snapshot.deltas.sent == 1)
        #expect(try await a.body("x") == body(2))
    }

    @Test func blobsOfADeltaAreFetched() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await a.put("x", body(1))
        await replicate(a, hub)
        let digest = try await a.blob(Array("a blob".utf8))
        try await a.put("x", body(2, ",\"b\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":6}"))
        let status = await replicate(a, hub)
        #expect(status.counts.deltas.sent == 1 && status.counts.deltas.refused == 0 && status.counts.failed == 0)
        let stored = try BlobDigest(digest)
        #expect(try await b.database.blobs.perform { $0.size(stored) } == 6)
        #expect(try await a.contents() == b.contents())
    }
}
