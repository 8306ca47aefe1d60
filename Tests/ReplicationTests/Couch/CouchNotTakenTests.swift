import BLIP
import Documents
import DocumentStore
import Interfaces
import Testing
import Transport

@testable import Replication

/// Documents of a remote that cannot be stored here: the checkpoint passes them, and an operator finds each by its id until it changes.
@Suite(.timeLimit(.minutes(5)))
struct CouchNotTakenTests {
    private static let long = String(repeating: "L", count: 241)

    private func pulling(_ database: TestDatabase, _ target: String, most: Int = 10_000) throws -> Replicator {
        Replicator(ReplicatorConfiguration(database, to: target, .pull) { $0.limits.notTakenDocuments = most }, try DatabaseClient(target))
    }

    private func listed(_ replicator: Replicator) async throws -> [String: String] {
        var found: [String: String] = [:]
        try await replicator.forEachNotTaken { page in
            for each in page {
                #expect(each.direction == .pull && each.since > 0 && found[each.id.text] == nil)
                found[each.id.text] = each.reason
            }
        }
        return found
    }

    /// A document whose only revision has a name of a form that is not taken.
    private static func odd(_ id: String, _ tree: inout CouchTree) {
        var document = CouchTree.Document()
        document.revisions["1-abc"] = CouchTree.Revision(parent: nil, body: JSONObject())
        tree.sequence += 1
        document.sequence = tree.sequence
        tree.documents[id] = document
    }

    private static func fill(_ server: CouchServer) {
        server.change { tree in
            tree.edit("fine", "{}")
            tree.edit("deep", "{\"a\":\"DEEP\"}")
            tree.edit(long, "{}")
            tree.edit("bell\u{7}", "{}")
            tree.edit("_own", "{}")
            odd("odd", &tree)
        }
        let nested = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
        server.rewrite { $0.replacing("\"DEEP\"", with: nested) }
    }

    @Test("documents that cannot be stored are listed with their reasons, also by a later run, which does not request them again")
    func listed() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            Self.fill(server)
            #expect(try await pulling(a, target).run().counts.pulled == 1)
            let later = try pulling(a, target)
            #expect(await later.run().counts.total == 0)
            let words = try await listed(later)
            #expect(Set(words.keys) == ["deep", Self.long, "bell\\u0007", "_own", "odd"], "\(words)")
            for (id, word) in [("deep", "nested"), (Self.long, "241 bytes"), ("bell\\u0007", "control character"), ("_own", "reserved"), ("odd", "1-abc")] {
                #expect(words[id]?.contains(word) == true, "\(words)")
                guard case .refusedHere(let refused) = try await later.standing(of: NotTakenDocuments.name(of: id), in: .default).pull else {
                    Issue.record("\(id) is not said to be refused here")
                    continue
                }
                #expect(refused.error.message.contains(word) && refused.since > 0, "\(refused)")
            }
            let all = try await later.notTaken()
            #expect(all.count == 5 && all.example != nil && all.oldest ?? 0 > 0, "\(all)")
        }
    }

    @Test("a document leaves the list when it is stored, or deleted at the remote; what was purged there leaves it with a reset")
    func changed() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            Self.fill(server)
            _ = try await pulling(a, target).run()
            server.change { tree in
                tree.edit("deep", "{\"n\":1}")
                tree.edit(Self.long, "{}", isDeleted: true)
                tree.documents["odd"] = nil
            }
            let second = try pulling(a, target)
            let status = await second.run()
            #expect(status.counts.pulled == 1 && status.counts.failed == 0, "\(status)")
            #expect(try await Set(listed(second).keys) == ["bell\\u0007", "_own", "odd"])
            #expect(try await second.notTaken().count == 3)
            // As long as its next revision cannot be stored either, it is listed, with the latest reason.
            server.change { $0.edit("deep", "{\"a\":\"DEEP\"}") }
            let third = try pulling(a, target)
            #expect(await third.run().counts.failed == 1)
            #expect(try await Set(listed(third).keys) == ["deep", "bell\\u0007", "_own", "odd"])
            #expect(await third.run(reset: true).error == nil)
            #expect(try await Set(listed(third).keys) == ["deep", "bell\\u0007", "_own"])
        }
    }

    @Test("a document that arrives in another way is no longer listed, and one that is not pulled here is not listed at all")
    func arrives() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await CouchServer.with { server, target in
            let revision = server.change { tree in tree.edit("deep", "{\"a\":\"DEEP\"}") }
            let nested = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
            server.rewrite { $0.replacing("\"DEEP\"", with: nested) }
            let replicator = try pulling(a, target)
            _ = await replicator.run()
            #expect(try await Set(listed(replicator).keys) == ["deep"])
            // The same revision, from a peer that can say it.
            server.rewrite { $0 }
            _ = try await pulling(b, target).run()
            _ = await Replicator(ReplicatorConfiguration(a, .pull), Hub(b)).run()
            #expect(try await a.get("deep")?.revision.text == revision)
            #expect(try await listed(replicator).isEmpty)
            #expect(try await replicator.notTaken().count == 0)
            let pushing = Replicator(ReplicatorConfiguration(a, to: target, .push), try DatabaseClient(target))
            #expect(try await listed(pushing).isEmpty)
            #expect(try await pushing.notTaken().count == 0)
        }
    }

    @Test("the list has a bound; what is known first stays on it")
    func bound() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<30 { Self.odd("odd-\(n)", &tree) } }
            let replicator = try pulling(a, target, most: 10)
            #expect(await replicator.run().counts.failed == 30)
            #expect(try await listed(replicator).count == 10)
            #expect(try await replicator.notTaken().count == 10)
            server.change { Self.odd("odd-30", &$0) }
            _ = await replicator.run()
            #expect(try await listed(replicator)["odd-30"] == nil)
        }
    }

    @Test("the name of a document whose id is not valid has no control characters and a bounded length; a valid id is its own name")
    func names() {
        #expect(NotTakenDocuments.name(of: "plain é").text == "plain é")
        #expect(NotTakenDocuments.name(of: "_own").text == "_own")
        #expect(NotTakenDocuments.name(of: "a\u{0}b\n").text == "a\\u0000b\\u000a")
        #expect(NotTakenDocuments.name(of: String(repeating: "x", count: 100_000)).text.utf8.count < 1_100)
        // Whoever copies it from the list finds it.
        for text in ["a\u{1}", String(repeating: "é", count: 100_000)] {
            let name = NotTakenDocuments.name(of: text)
            #expect(NotTakenDocuments.name(of: name.text) == name)
        }
    }

    @Test("the same holds for a remote that speaks over a WebSocket")
    func overWebSocket() async throws {
        let a = try TestDatabase("a")
        let listener = FakeListener { request in request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply() }
        let replicator = Replicator(ReplicatorConfiguration(a, .pull, continuous: true), listener)
        await replicator.start()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            let reply = await peer.ask(
                "changes", [("collection", "0")], "[[1,\"deep\",\"1-aa\"],[2,\"odd\",\"nonsense\"],[3,\"\(Self.long)\",\"1-cc\"],[4,\"_gone\",\"1-dd\",1],[5,\"fine\",\"1-ee\"]]")
            #expect(reply.map { String(buffer: $0.body) }?.hasPrefix("[[],0,0,0,[]") == true)
            let nested = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
            func rev(_ id: String, _ revision: String, _ sequence: Int) -> [(String, String)] {
                [("collection", "0"), ("id", id), ("rev", revision), ("sequence", "\(sequence)")]
            }
            #expect(await peer.ask("rev", rev("deep", "1-aa", 1), "{\"a\":\(nested)}")?.error?.code == 400)
            #expect(await peer.ask("rev", rev("fine", "1-ee", 5), "{}")?.error == nil)
            peer.send(peer.request("changes", [("collection", "0")], "null", noReply: true))
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            #expect(try await Set(listed(replicator).keys) == ["deep", "odd", Self.long])
            // The next revision of one of them can be stored.
            _ = await peer.ask("changes", [("collection", "0")], "[[6,\"deep\",\"2-aa\"]]")
            #expect(await peer.ask("rev", rev("deep", "2-aa", 6), "{\"a\":1}")?.error == nil)
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            #expect(try await Set(listed(replicator).keys) == ["odd", Self.long])
            break
        }
        await replicator.stop()
    }
}
