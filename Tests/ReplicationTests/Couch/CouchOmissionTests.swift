import Documents
import Interfaces
import Synchronization
import Testing
import Transport

@testable import Replication

/// Documents that `_changes` announces and that do not arrive: none of them is skipped silently.
@Suite(.timeLimit(.minutes(5)))
struct CouchOmissionTests {
    private func pulling(_ database: TestDatabase, _ target: String) throws -> Replicator {
        Replicator(ReplicatorConfiguration(database, to: target, .pull), try DatabaseClient(target))
    }

    /// The first `_bulk_get` is answered with these `docs` for each document; nil leaves it out.
    private func answerFirst(_ server: CouchServer, _ answer: @escaping @Sendable (_ id: String, _ rev: String, _ found: JSONValue) -> JSONValue?) {
        let asked = Mutex(0)
        server.trouble { [tree = server.tree] request, body in
            guard request.path == "/db/_bulk_get", asked.withLock({ $0 += 1; return $0 }) == 1 else { return nil }
            let results = ((try? JSONValue(parsing: body))?["docs"]?.asArray ?? []).compactMap { wanted -> JSONValue? in
                guard let id = wanted["id"]?.asString, let rev = wanted["rev"]?.asString, let found = tree.json(id, rev), let docs = answer(id, rev, found)
                else { return .none }
                return ["id": .string(id), "docs": docs]
            }
            let found: JSONValue = ["results": .array(results)]
            return .json(found.text)
        }
    }

    @Test("documents that a _bulk_get leaves out fail by name and are pulled in the next run; those that the peer no longer has are not waited for")
    func omitted() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<6 { tree.edit("doc-\(n)", "{\"n\":\(n)}") } }
            answerFirst(server) { id, rev, found in
                // These have been purged meanwhile.
                if id == "doc-4" || id == "doc-5" { server.change { $0.documents[id] = nil } }
                switch id {
                case "doc-2": return nil
                case "doc-3": return []
                // In the words of CouchDB and of PouchDB.
                case "doc-4": return [["error": ["id": .string(id), "rev": .string(rev), "error": "not_found", "reason": "missing"]]]
                case "doc-5": return [["missing": .string(rev)]]
                default: return [["ok": found]]
                }
            }
            let replicator = try pulling(a, target)
            let first = await replicator.run()
            #expect(first.counts.pulled == 2 && first.counts.failed == 2, "\(first)")
            for id in ["doc-2", "doc-3"] {
                let waiting = replicator.waiting.find(.default, doc(id), .pull)
                #expect(waiting?.error.isTransient == true && waiting?.error.message.contains(id) == true, "\(String(describing: waiting))")
            }
            #expect(replicator.waiting.find(.default, doc("doc-4"), .pull) == nil && replicator.waiting.find(.default, doc("doc-5"), .pull) == nil)
            // The checkpoint does not pass them.
            let second = try await pulling(a, target).run()
            #expect(second.error == nil && second.counts.failed == 0, "\(second)")
            let (left, empty) = (try await a.body("doc-2"), try await a.body("doc-3"))
            #expect(left != nil && empty != nil)
        }
    }

    @Test("a document that is answered under another revision than the one that the feed names fails by name, and is pulled in the next run")
    func otherRevision() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<2 { tree.edit("doc-\(n)", "{\"n\":\(n)}") } }
            answerFirst(server) { id, _, found in
                guard id == "doc-1", var other = found.asObject else { return [["ok": found]] }
                (other["_rev"], other["_revisions"]) = ("9-abababababababababababababababab", nil)
                return [["ok": .object(other)]]
            }
            let replicator = try pulling(a, target)
            let first = await replicator.run()
            #expect(first.counts.pulled == 1 && first.counts.failed == 1, "\(first)")
            #expect(replicator.waiting.find(.default, doc("doc-1"), .pull)?.error.isTransient == true)
            // The checkpoint does not pass it.
            let second = try await pulling(a, target).run()
            #expect(second.error == nil && second.counts.failed == 0, "\(second)")
            let left = try await a.body("doc-1")
            #expect(left != nil)
        }
    }

    /// The ways in which a node of a cluster says that it does not have a revision that another node announced.
    enum Lagging: CaseIterable { case bulkGet, openRevisions, notFound }

    @Test("a revision that the feed still names but the peer does not have fails by name and is pulled in the next run", arguments: Lagging.allCases)
    func lagging(_ kind: Lagging) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<3 { tree.edit("doc-\(n)", "{\"n\":\(n)}") } }
            if kind != .bulkGet { server.state.withLock { $0.hasBulkGet = false } }
            let lags = Mutex(true)
            server.trouble { [tree = server.tree] request, body in
                guard lags.withLock({ $0 }) else { return nil }
                switch (kind, request.path) {
                case (.bulkGet, "/db/_bulk_get"):
                    let results = ((try? JSONValue(parsing: body))?["docs"]?.asArray ?? []).compactMap { wanted -> JSONValue? in
                        guard let id = wanted["id"]?.asString, let rev = wanted["rev"]?.asString, let found = tree.json(id, rev) else { return .none }
                        let missing: JSONValue = ["error": ["id": .string(id), "rev": .string(rev), "error": "not_found", "reason": "missing"]]
                        return ["id": .string(id), "docs": [id == "doc-1" ? missing : ["ok": found]]]
                    }
                    let answer: JSONValue = ["results": .array(results)]
                    return .json(answer.text)
                case (.openRevisions, "/db/doc-1"):
                    let answer: JSONValue = [["missing": .string(tree.documents["doc-1"]?.leaves.first ?? "")]]
                    return .json(answer.text)
                case (.notFound, "/db/doc-1"): return .error(status: 404, error: "not_found", reason: "missing")
                default: return nil
                }
            }
            let replicator = try pulling(a, target)
            let first = await replicator.run()
            #expect(first.counts.pulled == 2 && first.counts.failed == 1, "\(first)")
            let waiting = replicator.waiting.find(.default, doc("doc-1"), .pull)
            #expect(waiting?.error.isTransient == true && waiting?.error.message.contains("doc-1") == true, "\(String(describing: waiting))")
            // The other node has caught up. The checkpoint has not passed the revision.
            lags.withLock { $0 = false }
            let second = try await pulling(a, target).run()
            #expect(second.error == nil && second.counts.failed == 0, "\(second)")
            let late = try await a.body("doc-1")
            #expect(late != nil)
        }
    }

    @Test("documents whose id or revision id cannot be stored here fail by name, once, and hold up nothing")
    func impossible() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in
                tree.edit("first", "{}")
                tree.edit(String(repeating: "L", count: 241), "{}")
                for (id, revision) in [("odd", "1-abc"), ("upper", "1-ABCD")] {
                    var document = CouchTree.Document()
                    document.revisions[revision] = CouchTree.Revision(parent: nil, body: JSONObject())
                    tree.sequence += 1
                    document.sequence = tree.sequence
                    tree.documents[id] = document
                }
                tree.edit("last", "{}")
            }
            let replicator = try pulling(a, target)
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pulled == 2 && status.counts.failed == 3, "\(status)")
            for (id, revision) in [("odd", "1-abc"), ("upper", "1-ABCD")] {
                guard case .refusedHere(let refused) = try await replicator.standing(of: doc(id), in: .default).pull else {
                    Issue.record("\(id) is not said to be refused here")
                    continue
                }
                #expect(refused.error.message.contains(id) && refused.error.message.contains(revision), "\(refused)")
            }
            // They are not requested again.
            #expect(try await pulling(a, target).run().counts.total == 0)
        }
    }

    @Test("a document whose history cannot be read is refused here until it can be read")
    func unreadable() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let first = server.change { (tree: inout CouchTree) -> String in
                tree.edit("fine", "{\"fine\":true}")
                let first = tree.edit("old", "{}")
                tree.edit("old", "{\"n\":2}")
                return first
            }
            let digest = String(first.dropFirst(2))
            server.rewrite { $0.replacing(digest, with: digest.uppercased()) }
            let replicator = try pulling(a, target)
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pulled == 1 && status.counts.failed == 1, "\(status)")
            #expect(replicator.waiting.refusedHere(.default, doc("old"))?.error.message.contains("_revisions") == true)
            server.rewrite { $0 }
            server.change { tree in tree.edit("old", "{\"n\":3}") }
            #expect(await replicator.run().counts.pulled == 1)
            #expect(replicator.waiting.refusedHere(.default, doc("old")) == nil)
        }
    }
}
