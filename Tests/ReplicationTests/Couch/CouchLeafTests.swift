import Documents
import DocumentStore
import Environment
import HTTPServer
import Testing
import Transport

@testable import Replication

/// A document with far more leaves at the peer than conflicts should ever leave: it fails alone, without ending the connection.
@Suite(.timeLimit(.minutes(5)))
struct CouchLeafTests {
    private func grow(_ server: CouchServer, _ id: String, _ count: Int, _ body: (Int) -> String = { "{\"n\":\($0)}" }) {
        server.change { tree in
            let root = tree.edit(id, "{}")
            for n in 0..<count { tree.edit(id, body(n), on: root) }
        }
    }

    /// Runs a pull to its end, and looks for an error that it reported about a document.
    private func pull(
        _ database: TestDatabase, _ target: String, _ memory: MemoryBudget = .unlimited, says text: String, of id: String
    ) async throws -> (ReplicatorStatus, words: String?) {
        let configuration = ReplicatorConfiguration(database, to: target, .pull) { $0.retry.maximumAttempts = 1 }
        let replicator = Replicator(configuration: configuration, connector: try DatabaseClient(target), environment: .system, memory: memory, logger: quietLogger())
        return await replicator.run { $0.id.text == id && $0.error?.message.contains(text) == true }
    }

    @Test("a document with more leaves than couch_leaves is refused by name, and the others are pulled")
    func tooMany() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { $0.edit("first", "{}") }
            grow(server, "many", CouchBounds.leaves + 1)
            server.change { $0.edit("last", "{}") }
            let (status, words) = try await pull(a, target, says: "couch_leaves", of: "many")
            #expect(status.error == nil && status.counts.pulled == 2 && status.counts.failed == 1, "\(status)")
            #expect(words?.contains("document many has 1001 leaves at the peer, couch_leaves is 1000") == true, "\(words ?? "")")
            let (first, many, last) = (try await a.body("first"), try await a.body("many"), try await a.body("last"))
            #expect(first != nil && many == nil && last != nil)
            // The document is not tried again until it changes.
            let again = try await pull(a, target, says: "couch_leaves", of: "many").0
            #expect(again.error == nil && again.counts.failed == 0, "\(again)")
        }
    }

    @Test("the leaves of a document arrive in parts for which limits.memory has room")
    func parts() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            // Each value takes two bytes of text; in memory, all of them together take more than the budget.
            let zeros = Array(repeating: "0", count: 2_000).joined(separator: ",")
            grow(server, "many", 150) { "{\"n\":\($0),\"values\":[\(zeros)]}" }
            server.change { $0.edit("last", "{}") }
            let (status, _) = try await pull(a, target, MemoryBudget(limit: 8 << 20), says: "couch_leaves", of: "many")
            #expect(status.error == nil && status.counts.failed == 0, "\(status)")
            #expect(server.count("POST /_bulk_get") > 4)
            let (many, last) = (try await a.body("many"), try await a.body("last"))
            #expect(many != nil && last != nil)
        }
    }

    @Test("a row of the feed that is too large to read is skipped and named")
    func endlessRow() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for id in ["first", "huge", "last"] { tree.edit(id, "{}") } }
            let bomb = "{\"results\":[" + Array(repeating: "[]", count: 2_200_000).joined(separator: ",") + "]}"
            server.trouble { request, _ in
                guard request.path == "/db/_changes", (try? request.queryValue("style")) == "all_docs" else { return nil }
                let since = (try? request.queryValue("since")).flatMap { Int($0.prefix { $0 != "-" }) } ?? 0
                let limit = (try? request.queryValue("limit")).flatMap { Int($0) } ?? 0
                // The second row is among those requested.
                return since < 2 && since + limit >= 2 ? .json(bomb) : nil
            }
            let (status, words) = try await pull(a, target, says: "couch_leaves", of: "huge")
            #expect(status.error == nil && status.counts.pulled == 2 && status.counts.failed == 1, "\(status)")
            #expect(words?.contains("document huge has more leaves than can be read") == true, "\(words ?? "")")
            let (first, huge, last) = (try await a.body("first"), try await a.body("huge"), try await a.body("last"))
            #expect(first != nil && huge == nil && last != nil)
        }
    }

    @Test("a document is pushed to a peer that names thousands of its leaves as possible ancestors")
    func ancestors() async throws {
        let a = try TestDatabase()
        for id in ["many", "other"] { try await a.put(id, "{\"id\":\"\(id)\"}") }
        try await CouchServer.with { server, target in
            let ancestors = JSONValue.array((0..<5_000).map { .string("1-\(CouchTree.hash("\($0)"))") })
            server.trouble { request, body in
                guard request.path == "/db/_revs_diff", let asked = (try? JSONValue(parsing: body))?.asObject else { return nil }
                var answer = JSONObject()
                for member in asked.members {
                    var entry = JSONObject()
                    entry["missing"] = member.value
                    if member.key == "many" { entry["possible_ancestors"] = ancestors }
                    answer[member.key] = .object(entry)
                }
                return .json(JSONValue.object(answer).text)
            }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let status = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(status.error == nil && status.counts.pushed == 2, "\(status)")
            #expect(server.tree.documents.keys.sorted() == ["many", "other"])
        }
    }

    @Test("the cost of a revision does not grow with the number of its document's other leaves")
    func sharedLeaves() {
        func cost(_ leaves: Int) -> Int {
            let others = Set((0..<leaves).map { rev("1-\($0)000") })
            return HeldBytes.revision(doc("a"), rev("1-0000"), RevisionHistory([]), nil, [], PeerBranches(isLoser: true, others: others))
        }
        #expect(cost(1_000) == cost(1))
        // Nor with that of a peer which offers one revision after the other and sends none.
        for known in [PeerRevision.unknown, .had(rev("1-aa"))] {
            var asked = RequestedRows()
            for n in 0..<1_000 { asked.ask(RemoteSequence(json: "\(n)"), doc("a"), rev("1-\(n)000"), peerHad: known) }
            let last = asked.giveUp(RemoteSequence(json: "999"))
            #expect((last?.offeredBefore.count ?? .max) < 100)
            #expect(known == .unknown || last?.offeredBefore.last == rev("1-998000"))
        }
    }
}
