import BLIP
import Documents
import NIOCore
import Replication
import Synchronization
import Testing

/// An edit takes its document out of the user's channels, and the listener announces this before it acknowledges the edit.
@Suite(.timeLimit(.minutes(5)))
struct RemovalDuringPushTests {
    @Test(arguments: [true, false]) func theAnswerDecidesWhatBecomesOfTheDocument(_ isTaken: Bool) async throws {
        let isFirst = Mutex(true)
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": return OutgoingReply(json: "[{}]")
            case "proposeChanges": return OutgoingReply(json: "[]")
            case "rev":
                let waits = isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst
                }
                return waits ? nil : OutgoingReply(error: "HTTP", 403, "not yours")
            default: return OutgoingReply()
            }
        }
        let device = try TestDatabase("device")
        try await device.put("a", "{\"team\":\"red\"}")
        let replicator = Replicator(ReplicatorConfiguration(device, .pushAndPull, continuous: true), listener)
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        let peer = try #require(await peers.next())
        var (hasSubscribed, revision) = (false, UInt64?.none)
        for await request in peer.requests {
            if request.profile == "subChanges" { hasSubscribed = true }
            if request.profile == "rev" { revision = request.number }
            if hasSubscribed, revision != nil { break }
        }
        #expect(await peer.ask("changes", [("collection", "0")], "[]")?.error == nil)
        #expect(await peer.ask("changes", [("collection", "0")], "[[7,\"a\",\"2-ff\",4,2]]")?.error == nil)
        // So far nothing is known about the edit.
        #expect(try await device.get("a") != nil)
        peer.reply(to: try #require(revision), isTaken ? OutgoingReply() : OutgoingReply(error: "HTTP", 403, "not yours"))
        await replicator.wait { $0.activity == .idle }
        var orphans: [String] = []
        try await replicator.forEachOrphaned { orphans += $0.map { "\($0.1.id): \($0.1.error)" } }
        if isTaken {
            #expect(try await device.get("a") == nil)
            #expect(orphans == [])
        } else {
            #expect(try await device.body("a") == "{\"team\":\"red\"}")
            #expect(orphans.count == 1 && orphans.first?.contains("a: an edit made here has not reached the remote") == true, "\(orphans)")
        }
        await replicator.stop()
    }

    @Test func ifTheEditIsNeverAnsweredBothAreSentAgainOnAnotherConnection() async throws {
        let revisions = Mutex(0)
        let checkpoints = Mutex([String]())
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": return OutgoingReply(json: "[{}]")
            case "proposeChanges": return OutgoingReply(json: "[]")
            case "rev":
                let isFirst = revisions.withLock { count in
                    count += 1
                    return count == 1
                }
                return isFirst ? nil : OutgoingReply()
            case "setCheckpoint":
                checkpoints.withLock { $0.append(String(buffer: request.body)) }
                return OutgoingReply()
            default: return OutgoingReply()
            }
        }
        let device = try TestDatabase("device")
        try await device.put("a", "{\"team\":\"red\"}")
        let replicator = Replicator(
            ReplicatorConfiguration(device, .pushAndPull, continuous: true) { $0.limits.removalWaitSeconds = 0 }, listener,
            environment: JumpingTime().environment)
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        for connection in 1...2 {
            let peer = try #require(await peers.next())
            var (hasSubscribed, hasRevision) = (false, false)
            for await request in peer.requests {
                if request.profile == "subChanges" { hasSubscribed = true }
                if request.profile == "rev" { hasRevision = true }
                if hasSubscribed, hasRevision { break }
            }
            #expect(hasSubscribed && hasRevision, "connection \(connection)")
            _ = await peer.ask("changes", [("collection", "0")], "[]")
            _ = await peer.ask("changes", [("collection", "0")], "[[7,\"a\",\"2-ff\",4,2]]")
            if connection == 1 {
                var ends = peer.end.makeAsyncIterator()
                let end = try #require(await ends.next())
                #expect(end.code == 4001 && end.reason.contains("took document \"a\" away"), "\(end)")
                #expect(try await device.get("a") != nil)
                // No checkpoint has passed the removal.
                #expect(checkpoints.withLock { $0.allSatisfy { !$0.contains("\"remote\":7") } })
            }
        }
        while try await device.get("a") != nil { await Task.yield() }
        await replicator.stop()
    }
}
