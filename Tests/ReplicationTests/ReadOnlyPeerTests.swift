import BLIP
import Documents
import HTTPServer
import Interfaces
import Replication
import Synchronization
import Testing
import Transport

/// Peers that let us read but not write: what they have is pulled, and what is here waits.
@Suite("Peers that are only read", .timeLimit(.minutes(5)))
struct ReadOnlyPeerTests {
    private static func forbidden(_ request: HTTPRequest, _: [UInt8]) -> HTTPResponse? {
        let isWrite = request.method == "PUT" || ["_revs_diff", "_bulk_docs", "_ensure_full_commit"].contains { request.path.hasSuffix($0) }
        return isWrite ? .error(status: 403, error: "forbidden", reason: "only for reading") : nil
    }

    @Test("a CouchDB database is pulled, resuming where it was although it keeps no checkpoint; waiting documents are pushed once that is allowed")
    func couch() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3, prefix: "mine-")
        try await CouchServer.with { server, target in
            server.trouble(Self.forbidden)
            server.change { tree in for n in 0..<50 { tree.edit("theirs-\(n)", "{}") } }
            func replicator() throws -> Replicator {
                Replicator(ReplicatorConfiguration(a, to: target, continuous: true), try DatabaseClient(target))
            }
            let first = try replicator()
            await first.start()
            await first.wait { $0.activity == .idle && $0.refusals.push != nil && $0.refusals.checkpoint != nil && $0.counts.pulled == 50 }
            #expect(first.status.error == nil && first.status.refusals.push?.code == 403 && first.status.refusals.push?.remedy != nil)
            // Counted from the first refusal, and not from when somebody first looked.
            #expect(first.status.behindSince.push != nil && first.status.behindSince.space == nil)
            #expect(first.status.lastSuccess == nil && first.status.lag(now: 5) == nil)
            #expect(try await first.refusedCount() == 0)
            #expect(try await first.pendingDocumentIDs().count == 3)
            await first.stop()

            let fetched = server.count("POST /_bulk_get")
            let second = try replicator()
            await second.start()
            server.change { $0.edit("late", "{}") }
            await second.wait { $0.activity == .idle && $0.counts.pulled > 0 }
            #expect(second.status.counts.pulled == 1 && server.count("POST /_bulk_get") == fetched + 1)

            server.trouble { _, _ in nil }
            #expect(await second.retryRefused())
            await second.wait { $0.counts.pushed == 3 && $0.refusals.push == nil && $0.activity == .idle && $0.behindSince.push == nil }
            #expect(server.tree.documents["mine-2"] != nil)
            #expect(second.status.lastSuccess != nil)
            await second.stop()
        }
    }

    @Test("documents that are refused on arrival wait as well, and are not counted as refused individually")
    func onTheWay() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3, prefix: "mine-")
        try await CouchServer.with { server, target in
            server.trouble { request, body in request.path.hasSuffix("_bulk_docs") ? Self.forbidden(request, body) : nil }
            server.change { $0.edit("theirs", "{}") }
            let status = await Replicator(ReplicatorConfiguration(a, to: target), try DatabaseClient(target)).run()
            // A one-shot run has to say that half of its work is not done.
            #expect(status.error?.code == 403 && status.counts.pulled == 1 && status.counts.pushed == 0, "\(status)")
            #expect(try await a.body("theirs") != nil && server.tree.documents["mine-0"] == nil)
            server.trouble { _, _ in nil }
            let next = await Replicator(ReplicatorConfiguration(a, to: target), try DatabaseClient(target)).run()
            #expect(next.error == nil && next.counts.pushed == 3, "\(next)")
        }
    }

    @Test("a peer speaking the message protocol that accepts neither proposals nor checkpoints does not end the pull")
    func messages() async throws {
        let a = try TestDatabase("a")
        try await a.fill(0..<3)
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": OutgoingReply(json: "[{}]")
            case "proposeChanges", "setCheckpoint": OutgoingReply(error: "HTTP", 403, "only for reading")
            default: OutgoingReply()
            }
        }
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), listener)
        await replicator.start()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            _ = await peer.ask("changes", [("collection", "0")], "[]")
            #expect(await peer.ask("changes", [("collection", "0")], "[[1,\"x\",\"1-aa\"]]").map { String(buffer: $0.body) } == "[[]]")
            #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", "1-aa"), ("sequence", "1")], "{}")?.error == nil)
            break
        }
        await replicator.wait { $0.activity == .idle && $0.refusals.push != nil }
        #expect(try await a.body("x") != nil && replicator.status.error == nil)
        await replicator.stop()
    }

    @Test("a replicator that only pushes has nothing left to do there, and says why")
    func onlyPushing() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.trouble(Self.forbidden)
            let status = await Replicator(ReplicatorConfiguration(a, to: target, .push), try DatabaseClient(target)).run()
            #expect(status.error?.code == 403 && status.error?.kind == .needsAction, "\(status)")
        }
    }
}
