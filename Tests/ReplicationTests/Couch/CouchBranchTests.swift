import Documents
import DocumentStore
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Synchronization
import TestRandomness
import Testing
import Transport

@testable import Replication

/// Documents with several branches, at a peer that keeps all of them: whatever is decided, nothing is lost.
@Suite(.timeLimit(.minutes(5)))
struct CouchBranchTests {
    private func run(
        _ database: TestDatabase, _ target: String, _ type: ReplicatorType = .pushAndPull, _ resolver: TestResolver? = nil,
        _ change: (inout CollectionReplication) -> Void = { _ in }
    ) async throws {
        let configuration = ReplicatorConfiguration(database, to: target, type) { configuration in
            configuration.only {
                $0.resolver = resolver
                change(&$0)
            }
        }
        let status = await Replicator(configuration, try DatabaseClient(target)).run()
        try #require(status.error == nil, "\(status)")
    }

    /// Makes a root and branches on it, with bodies `{"n":1}` and so on. Returns their revisions, the winner last.
    @discardableResult
    private func branches(_ server: CouchServer, _ id: String, _ count: Int) -> [String] {
        server.change { tree in
            let root = tree.edit(id, "{\"n\":0}")
            for n in 1...count { tree.edit(id, "{\"n\":\(n)}", on: root) }
            return tree.documents[id].map { Array($0.leaves.reversed()) } ?? []
        }
    }

    private func live(_ server: CouchServer, _ id: String) -> [String] {
        server.tree.documents[id].map { document in document.leaves.filter { document.revisions[$0]?.isDeleted == false } } ?? []
    }

    private func body(_ server: CouchServer, _ id: String, _ revision: String) -> String? {
        server.tree.documents[id]?.revisions[revision]?.body.map { JSONValue.object($0).text }
    }

    /// Expects that the document is live, has one live leaf at the peer, and is the same on all sides.
    private func expectOne(_ server: CouchServer, _ databases: [TestDatabase], _ id: String, _ place: SourceLocation = #_sourceLocation) async throws {
        let leaves = live(server, id)
        #expect(leaves.count == 1, "\(server.tree.documents[id]?.leaves ?? [])", sourceLocation: place)
        for database in databases {
            let here = try await database.get(id)
            #expect(here?.isDeleted == false && here?.revision.text == leaves.first, "\(leaves)", sourceLocation: place)
            #expect(try await database.body(id) == leaves.first.flatMap { body(server, id, $0) }, sourceLocation: place)
        }
    }

    private static let local = TestResolver { _ in .local }
    private static let remote = TestResolver { _ in .remote }
    private static let merging = TestResolver { conflict in
        guard let here = conflict.local, let there = conflict.remote else { return .delete }
        let parts = [here, there].map { String(decoding: $0.body, as: UTF8.self).filter(\.isNumber) }
        return .merged(Array("{\"n\":\(parts.sorted().joined())}".utf8))
    }
    private static let failing = TestResolver { _ in .failed(PolicyFailure(plugin: "r", version: "1", kind: "plugin_error", message: "not yet")) }

    @Test("several branches become one live leaf, in continuous replication and with every kind of decision", arguments: [3, 4, 7], [nil, "local", "remote", "merge"])
    func severalBranches(_ count: Int, _ rule: String?) async throws {
        let resolver = rule.map { ["local": Self.local, "remote": Self.remote][$0] ?? Self.merging }
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await CouchServer.with { server, target in
            server.state.withLock { $0.isPouchDB = count > 3 }
            branches(server, "x", count)
            let fetched = Mutex<[String]>([])
            server.trouble { request, body in
                if request.path == "/db/_bulk_get" { fetched.withLock { $0.append(String(decoding: body, as: UTF8.self)) } }
                return nil
            }
            let configuration = ReplicatorConfiguration(a, to: target, continuous: true) { $0.only { $0.resolver = resolver } }
            let replicator = Replicator(configuration, try DatabaseClient(target))
            await replicator.start()
            try await a.wait { try await $0.body("x") != nil }
            await replicator.wait { _ in live(server, "x").count == 1 }
            // Once this has arrived, everything announced before it has been looked at.
            server.change { $0.edit("mark", "{}") }
            try await a.wait { try await $0.body("mark") != nil }
            await replicator.wait { $0.activity == .idle }
            await replicator.stop()
            try await expectOne(server, [a], "x")
            try await run(b, target, .pushAndPull, resolver)
            try await expectOne(server, [a, b], "x")
            // What was pushed from here is not fetched back.
            let tombstones = server.tree.documents["x"]?.leaves.filter { server.tree.documents["x"]?.revisions[$0]?.isDeleted == true } ?? []
            let asked = fetched.withLock { $0.prefix { !$0.contains("mark") }.joined() }
            #expect(tombstones.count == count - 1 && !tombstones.contains { asked.contains($0) })
        }
    }

    @Test("a row that lists tombstones before its winner deletes nothing", arguments: [true, false])
    func tombstonesFirst(isPouchDB: Bool) async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await CouchServer.with { server, target in
            server.state.withLock { $0.isPouchDB = isPouchDB }
            let leaves = branches(server, "x", 3)
            try await run(a, target, .pull)
            for leaf in leaves.dropLast() { server.change { _ = $0.edit("x", "{}", on: leaf, isDeleted: true) } }
            for database in [a, b, a] { try await run(database, target) }
            try await expectOne(server, [a, b], "x")
        }
    }

    @Test("a branch that others end while the conflict waits does not count as a deletion of the document", arguments: [0, 1, 2])
    func endedMeanwhile(_ which: Int) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let leaves = branches(server, "x", 3)
            try await run(a, target, .pushAndPull, Self.failing)
            #expect(live(server, "x").count == 3)
            server.change { _ = $0.edit("x", "{}", on: leaves[which], isDeleted: true) }
            try await run(a, target, .pushAndPull, Self.failing)
            #expect(try await a.body("x") != nil)
            try await run(a, target)
            try await run(a, target)
            try await expectOne(server, [a], "x")
            let kept = leaves.indices.filter { $0 != which }.compactMap { body(server, "x", leaves[$0]) }
            #expect(try await kept.contains(a.body("x") ?? ""))
        }
    }

    @Test("if the winner has ended at the peer, the remaining branch is followed and no new revision is made")
    func winnerEnded() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await CouchServer.with { server, target in
            let leaves = branches(server, "x", 3)
            // Only the winner is pulled: the other branches are written after it.
            try await run(a, target)
            try await run(b, target)
            let (won, count) = (live(server, "x"), server.tree.documents["x"]?.revisions.count)
            #expect(won == [leaves[2]])
            server.change { tree in
                tree.edit("x", "{\"n\":\"late\"}", on: leaves[0])
                tree.edit("x", "{}", on: leaves[2], isDeleted: true)
            }
            try await run(a, target)
            try await run(b, target)
            try await expectOne(server, [a, b], "x")
            #expect(try await a.body("x") == "{\"n\":\"late\"}")
            #expect(server.tree.documents["x"]?.revisions.count == count.map { $0 + 2 })
        }
    }

    @Test("the deletion of a document with several leaves arrives once all of them are deleted", arguments: [true, false])
    func deletion(hasEdit: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let leaves = branches(server, "x", 3)
            try await run(a, target, .pull)
            #expect(live(server, "x").count == 3)
            for leaf in leaves.reversed() {
                server.change { _ = $0.edit("x", "{}", on: leaf, isDeleted: true) }
                if leaf != leaves[0] { try await run(a, target, .pull) }
                #expect(try await a.body("x") != nil, "\(leaf) of \(leaves)")
            }
            if hasEdit { try await a.put("x", "{\"n\":\"here\"}") }
            try await run(a, target, .pull, hasEdit ? Self.local : nil)
            #expect(try await a.body("x") == (hasEdit ? "{\"n\":\"here\"}" : nil))
        }
    }

    @Test("no branch is ended at the peer before the winner is there")
    func winnerComesFirst() async throws {
        let a = try TestDatabase()
        let filter = TestFilter { document, _ in document.id.text == "x" ? .reject : .pass }
        try await CouchServer.with { server, target in
            branches(server, "x", 3)
            try await run(a, target, .pushAndPull, Self.merging) { $0.pushFilter = filter }
            #expect(live(server, "x").count == 3)
            // The same holds if nothing is pushed at all.
            try await run(try TestDatabase("b"), target, .pull, Self.merging)
            #expect(live(server, "x").count == 3)
            try await a.put("x", "{\"n\":\"more\"}")
            try await run(a, target, .pushAndPull, Self.merging)
            #expect(live(server, "x").contains { self.body(server, "x", $0) == "{\"n\":\"more\"}" })
        }
    }

    @Test("a branch that was ended here stays ended when the winner is deleted, whichever of the two tombstones is the greater")
    func winnerIsDeleted() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let ids = (0..<24).map { "x\($0)" }
            // Each document has different revisions, so that sometimes one tombstone is the greater and sometimes the other.
            for id in ids {
                server.change { tree in
                    let root = tree.edit(id, "{\"n\":0,\"of\":\"\(id)\"}")
                    for n in 1...2 { tree.edit(id, "{\"n\":\(n),\"of\":\"\(id)\"}", on: root) }
                }
            }
            let configuration = ReplicatorConfiguration(a, to: target, continuous: true) { $0.only { $0.resolver = Self.local } }
            // For now, the peer does not let the losing branch end.
            server.trouble { request, body in
                guard request.path == "/db/_bulk_docs", String(decoding: body, as: UTF8.self).contains("\"_deleted\":true") else { return nil }
                return .json(status: 201, "[{\"id\":\"x\",\"error\":\"forbidden\",\"reason\":\"no\"}]")
            }
            let replicator = Replicator(configuration, try DatabaseClient(target))
            await replicator.start()
            for id in ids { try await a.wait { try await $0.body(id) != nil } }
            await replicator.wait { $0.activity == .idle && $0.counts.resolved == ids.count }
            server.trouble { _, _ in nil }
            for id in ids { try await a.put(id, "{}", deleted: true) }
            for id in ids { await replicator.wait { _ in server.tree.documents[id].map { $0.leaves.contains { CouchTree.generation($0) > 2 } } == true } }
            await replicator.stop()
            for _ in 0..<2 { try await run(a, target) }
            for id in ids {
                #expect(live(server, id).isEmpty, "\(id): \(server.tree.documents[id]?.leaves ?? [])")
                #expect(try await a.get(id)?.isDeleted == true)
            }
        }
    }

    @Test("a branch that lost is not fetched again while the peer does not let it end")
    func givenUp() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let leaves = branches(server, "x", 3)
            let asked = Mutex<[String]>([])
            server.trouble { request, body in
                let text = String(decoding: body, as: UTF8.self)
                if request.path == "/db/_bulk_get" { asked.withLock { $0.append(text) } }
                guard request.path == "/db/_bulk_docs", text.contains("\"_deleted\":true") else { return nil }
                return .json(status: 201, "[{\"id\":\"x\",\"error\":\"forbidden\",\"reason\":\"no\"}]")
            }
            let configuration = ReplicatorConfiguration(a, to: target, continuous: true)
            let replicator = Replicator(configuration, try DatabaseClient(target))
            await replicator.start()
            await replicator.wait { _ in server.count("POST /_bulk_docs") == 2 }
            for n in 1...3 {
                server.change { tree in
                    tree.edit("x", "{\"n\":\"edit \(n)\"}")
                    tree.edit("mark-\(n)", "{}")
                }
                try await a.wait { try await $0.body("mark-\(n)") != nil }
                try await a.wait { try await $0.body("x") == "{\"n\":\"edit \(n)\"}" }
            }
            await replicator.stop()
            for leaf in leaves.dropLast() { #expect(asked.withLock { $0.count { $0.contains(leaf) } } == 1) }
        }
    }

    @Test("agents that decide differently lose nothing, whatever is edited, ended and decided in between", arguments: 0..<60)
    func opinions(_ seed: Int) async throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let opinions: [TestResolver?] = [nil, Self.local, Self.remote, Self.merging, Self.failing]
        let agents = try (0..<3).map { try TestDatabase("a\($0)") }
        let own = agents.map { _ in opinions[Int.random(in: 0..<opinions.count, using: &random)] }
        try await CouchServer.with { server, target in
            let ids = ["x", "y"]
            server.state.withLock { $0.isPouchDB = seed % 2 == 1 }
            for id in ids { branches(server, id, Int.random(in: 2...5, using: &random)) }
            var log: [String] = own.map { resolver in "\(opinions.firstIndex { $0 === resolver } ?? -1)" }
            for step in 0..<24 {
                let (id, agent) = (ids[Int.random(in: 0..<2, using: &random)], Int.random(in: 0..<3, using: &random))
                let leaves = live(server, id)
                switch Int.random(in: 0..<8, using: &random) {
                case 0:
                    guard let leaf = leaves.randomElement(using: &random) else { break }
                    server.change { _ = $0.edit(id, "{\"n\":\"there \(step)\"}", on: leaf) }
                case 1:
                    // A branch on any revision that was ever there.
                    guard let revision = server.tree.documents[id]?.revisions.keys.sorted().randomElement(using: &random) else { break }
                    server.change { _ = $0.edit(id, "{\"n\":\"branch \(step)\"}", on: revision) }
                case 2:
                    guard leaves.count > 1, let leaf = leaves.randomElement(using: &random) else { break }
                    server.change { _ = $0.edit(id, "{}", on: leaf, isDeleted: true) }
                case 3: if try await agents[agent].body(id) != nil { try await agents[agent].put(id, "{\"n\":\"here \(step)\"}") }
                default: try await run(agents[agent], target, .pushAndPull, own[agent])
                }
                log.append("\n\(step) agent \(agent) \(id): " + server.tree.documents.map { id, document in "\(id) \(document.leaves.map { "\($0.prefix(6))\(document.revisions[$0]?.isDeleted == true ? "x" : "")" })" }.sorted().joined(separator: "; "))
                for (index, agent) in agents.enumerated() { for id in ids { log.append("  \(index) \(id) \(try await agent.get(id)?.revision.text.prefix(6) ?? "-")") } }
                for id in ids { #expect(!live(server, id).isEmpty, "step \(step): \(server.tree.documents[id]?.leaves ?? [])") }
            }
            for round in 0..<5 {
                // In the end all decide alike, and what failed is decided.
                for agent in agents { try await run(agent, target) }
                for id in ids { #expect(!live(server, id).isEmpty, "round \(round)") }
            }
            let there = server.tree.contents.map { $0.replacing(" {}", with: "") }
            for agent in agents {
                let here = try await agent.contents().map { $0.replacing(" {}", with: "") }
                let trees = server.tree.documents.map { id, document in
                    "\(id): " + document.leaves.map { leaf in document.path(leaf).map { "\($0.prefix(6))\(document.revisions[$0]?.isDeleted == true ? "x" : "")" }.joined(separator: " ") }.joined(separator: " | ")
                }
                #expect(here == there, "\(trees) \(log)")
            }
        }
    }
}
