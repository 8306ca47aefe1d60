import BLIP
import DocumentStore
import Documents
import Interfaces
import NIOCore
import Replication
import Testing
import TestSupport

/// A peer that answers each decision with another revision, as one whose resolver makes something new each time.
@Suite(.timeLimit(.minutes(10)))
struct UndoneDecisionTests {
    @Test func aDocumentWhoseDecisionsAreUndoneIsPausedWithTheReason() async throws {
        let database = try TestDatabase("edge")
        try await database.put("x", #"{"at":"edge"}"#)
        let listener = FakeListener { request in
            switch request.profile {
            case "getCollections": OutgoingReply(json: "[{}]")
            case "proposeChanges": OutgoingReply(json: "[409]")
            default: OutgoingReply()
            }
        }
        let resolver = TestResolver { conflict in .merged(Array(#"{"merged":"\#(conflict.remoteRevision)"}"#.utf8)) }
        let replicator = Replicator(ReplicatorConfiguration(database, continuous: true) { $0.only { $0.resolver = resolver } }, listener)
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        let peer = try #require(await peers.next())
        for await request in peer.requests where request.profile == "subChanges" { break }
        let collection = try database.collection()
        var (undone, reason) = (0, "")
        while undone < 1_000, reason.isEmpty {
            undone += 1
            let revision = "\(undone)-\(String(UInt64(undone) + 0xABCD_0000, radix: 16))"
            #expect(await peer.ask("changes", [("collection", "0")], #"[[\#(undone),"x","\#(revision)"]]"#)?.error == nil)
            #expect(await peer.ask("rev", [("collection", "0"), ("id", "x"), ("rev", revision), ("sequence", "\(undone)")], #"{"n":\#(undone)}"#)?.error == nil)
            try await eventually("it is decided, or waits") {
                let pending = try await database.database.read { try $0.pendingConflict(collection, doc("x")) }
                let hasConflict = try await database.get("x")?.hasConflict
                return pending?.error.isEmpty == false || hasConflict == false
            }
            reason = try await database.database.read { try $0.pendingConflict(collection, doc("x")) }?.error ?? ""
        }
        // On a slow machine more, since some of the decisions are forgotten with time.
        #expect((50..<1_000).contains(undone), "\(undone)")
        #expect(reason.contains("undone again and again"), "\(reason)")
        // Work is owed, and nobody is asked to mend a resolver that works.
        #expect(replicator.status.activity == .busy)
        #expect(try await database.database.read { try $0.pendingConflict(collection, doc("x"))?.plugin } == "")
        await replicator.stop()
    }
}
