import BLIP
import Dispatch
import Documents
import DocumentStore
import Encodings
import Interfaces
import NIOCore
import Testing
import TestSupport

@testable import Replication

/// A document is created here while the hub, where it was created and deleted, sends another revision of it. The hub takes ours beside its tombstone and
/// reads it from then on; here the conflict is decided for the hub's revision.
@Suite(.timeLimit(.minutes(5)))
struct CrossingTests {
    private static let place = [("collection", "0")]

    /// What the hub sends: its deletion, or the document that it deletes a moment later.
    enum Sent: CaseIterable {
        case deletion, document

        var row: String { self == .deletion ? #"[[1,"x","2-49",1]]"# : #"[[1,"x","1-ff"]]"# }
        var properties: [(String, String)] {
            CrossingTests.place + [("id", "x"), ("sequence", "1")] + (self == .deletion ? [("rev", "2-49"), ("deleted", "1"), ("history", "1-ff")] : [("rev", "1-ff")])
        }
        var revision: RevisionID { rev(self == .deletion ? "2-49" : "1-ff") }
    }

    /// Answers everything but what the test answers itself.
    private static func listener() -> FakeListener {
        FakeListener { request in
            switch request.profile {
            case "getCollections": OutgoingReply(json: "[{}]")
            case "proposeChanges", "rev": nil
            default: OutgoingReply()
            }
        }
    }

    private func rows(_ request: IncomingRequest) -> [[String]] {
        let rows = (try? JSONValue(parsing: [UInt8](request.body.readableBytesView)))?.asArray ?? []
        return rows.map { ($0.asArray ?? []).map { $0.asString ?? "" } }
    }

    /// The acknowledgement arrives when the hub's revision is stored and the conflict decided; or while it waits to be stored.
    @Test(arguments: Sent.allCases, [true, false])
    func theHubIsToldThatOurBranchIsOver(_ sent: Sent, _ isLate: Bool) async throws {
        let a = try TestDatabase("a")
        let listener = Self.listener()
        let replicator = Replicator(ReplicatorConfiguration(a, continuous: true), listener)
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        let peer = try #require(await peers.next())
        var requests = peer.requests.makeAsyncIterator()
        func next(_ profile: String) async throws -> IncomingRequest {
            while let request = await requests.next() { if request.profile == profile { return request } }
            throw SupportError("the connection ended before \(profile)")
        }
        _ = try await next("subChanges")
        #expect(await peer.ask("changes", Self.place, "[]")?.error == nil)
        let ours = try await a.put("x", #"{"v":2}"#)
        peer.reply(to: try await next("proposeChanges").number, OutgoingReply(json: "[]"))
        let revision = try await next("rev")
        #expect(await peer.ask("changes", Self.place, sent.row)?.error == nil)
        let write = peer.request("rev", sent.properties, sent == .deletion ? "{}" : #"{"v":1}"#)
        if isLate {
            #expect(await peer.ask(write)?.error == nil)
            try await eventually("it is decided") {
                let pending = try await a.database.statistics().first?.conflictsPending
                let current = try await a.get("x")?.revision
                return pending == 0 && current == sent.revision
            }
            peer.reply(to: revision.number, OutgoingReply())
        } else {
            // Nothing is written until the acknowledgement is here as well.
            let gate = DispatchSemaphore(value: 0)
            await withCheckedContinuation { holds in
                a.database.write { _ in
                    holds.resume()
                    gate.wait()
                } completion: { (_: Result<Void, any Error>) in }
            }
            async let stored = peer.ask(write)
            // It is checked before it waits for the writer. If that takes longer, the acknowledgement is recorded first.
            try await Task.sleep(for: .milliseconds(200))
            peer.reply(to: revision.number, OutgoingReply())
            #expect(await peer.ask("changes", Self.place, "[]")?.error == nil)
            gate.signal()
            let answer = await stored
            #expect(answer != nil && answer?.error == nil)
            // Then the hub's is an earlier one than ours.
            let pending = try await a.database.statistics().first?.conflictsPending
            if try await a.get("x")?.revision == ours, pending == 0 { return await replicator.stop() }
        }
        let ended = RevisionTree.end(of: ours)
        let offer = try await next("proposeChanges")
        #expect(rows(offer).map { Array($0.prefix(3)) } == [["x", ended.text, ours.text]])
        peer.reply(to: offer.number, OutgoingReply(json: "[]"))
        let end = try await next("rev")
        #expect(end.properties["rev"] == ended.text && end.properties["deleted"] != nil && end.properties["history"] == ours.text)
        peer.reply(to: end.number, OutgoingReply())
        // The decision's result follows, which the hub has.
        let result = try await next("proposeChanges")
        #expect(rows(result).map { Array($0.prefix(3)) } == [["x", sent.revision.text, ended.text]])
        peer.reply(to: result.number, OutgoingReply(json: "[304]"))
        try await eventually("nothing is under way") { replicator.status.activity == .idle }
        let collection = try a.collection()
        let key = replicator.configuration.remoteKey
        try await eventually("it is noted what the hub has") {
            let noted = try await a.database.write { transaction in
                try transaction.changes(collection, since: 0, limit: 1, includeBodies: false, remote: try transaction.remoteID(for: key)).first?.remoteRevision
            }
            return noted == sent.revision
        }
        await replicator.stop()
    }

    /// What the hub makes of it.
    @Test func theHubReadsItsTombstoneAgain() async throws {
        let hub = try TestDatabase("hub")
        let collection = try hub.collection()
        func insert(_ revision: RevisionID, _ history: [String], deleted: Bool) async throws -> InsertOutcome {
            let incoming = IncomingRevision(
                id: doc("x"), revision: revision, history: RevisionHistory(history.map(rev)), isDeleted: deleted, body: Array("{}".utf8))
            return try await hub.database.write { try $0.insert(incoming, into: collection, conflicts: .refuse) }
        }
        _ = try await insert(rev("2-49"), ["1-ff"], deleted: true)
        _ = try await insert(rev("1-1b"), [], deleted: false)
        #expect(try await hub.get("x")?.revision == rev("1-1b"))
        _ = try await insert(RevisionTree.end(of: rev("1-1b")), ["1-1b"], deleted: true)
        #expect(try await hub.get("x")?.revision == rev("2-49"))
    }
}
