import DocumentStore
import Documents
import TestRandomness
import Testing

@Suite struct ConvergenceTests {
    /// The same revisions in any order give the same current revision and the same leaves everywhere.
    @Test(arguments: [1, 2, 3, UInt64.random(in: 4...(.max))])
    func orderDoesNotMatter(seed: UInt64) async throws {
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        // A random tree: each revision with its history.
        var made: [(revision: String, history: [String], deleted: Bool)] = []
        for n in 0..<20 {
            let parent = made.isEmpty || Int.random(in: 0..<6, using: &random) == 0 ? nil : made.randomElement(using: &random)
            let history = parent.map { [$0.revision] + $0.history } ?? []
            let digest = String(UInt64(n) + (random.next() & 0xFFFF) << 8, radix: 16)
            let even = digest.count % 2 == 0 ? digest : "0" + digest
            made.append(("\(history.count + 1)-\(even)", history, Int.random(in: 0..<5, using: &random) == 0))
        }
        var results: [StoredDocument] = []
        var leaves: [Set<RevisionID>] = []
        for _ in 0..<4 {
            let store = try Store()
            // Parents before children, as a peer's feed may never give a child twice.
            var order = made.indices.map { (random.next(), $0) }
            order.sort { made[$0.1].history.count == made[$1.1].history.count ? $0.0 < $1.0 : made[$0.1].history.count < made[$1.1].history.count }
            for (_, index) in order {
                let one = made[index]
                _ = try await store.insert("a", one.revision, one.history, body: "{\"r\":\"\(one.revision)\"}", deleted: one.deleted)
            }
            results.append(try #require(try await store.get("a")))
            let c = try store.c
            let tree = try #require(try await store.database.read { try $0.tree(c, doc("a")) })
            leaves.append(Set(tree.leaves.filter { !$0.isDeleted }.map(\.revision)))
            let winner = try #require(tree.winner)
            #expect(winner.revision == results.last?.revision)
            #expect(text(results.last?.body) == "{\"r\":\"\(winner.revision)\"}")
            // Every open leaf can be read.
            for leaf in tree.leaves {
                let body = try await store.database.read { try $0.body(c, doc("a"), leaf.revision) }
                #expect(text(body) == "{\"r\":\"\(leaf.revision)\"}")
            }
            let statistics = try await store.statistics()
            #expect(statistics.documents == (winner.isDeleted ? 0 : 1))
            #expect(statistics.documents + statistics.deleted == 1)
        }
        if results.contains(where: { !$0.isDeleted }) {
            #expect(Set(results.map(\.revision)).count == 1)
            #expect(Set(leaves).count == 1)
        }
    }

    /// Random work of all kinds: what is stored stays consistent.
    @Test(arguments: [7, 17277479768202442173, UInt64.random(in: 8...(.max))])
    func randomWork(seed: UInt64) async throws {
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        var options = DatabaseOptions()
        options.historyDepth = 4
        options.durability = .process
        let store = try Store(options)
        let c = try store.c
        let remotes = [try await store.remote("one"), try await store.remote("two")]
        for step in 0..<400 {
            let id = "d\(Int.random(in: 0..<6, using: &random))"
            let current = try await store.get(id)
            let remote = remotes.randomElement(using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0...2:
                _ = try await store.save(id, "{\"s\":\(step)}", deleted: Int.random(in: 0..<4, using: &random) == 0 && current != nil, parent: current?.isDeleted == true ? nil : current?.revision)
            case 3...4:
                // The remote edits an ancestor or the current revision.
                let tree = try await store.database.read { try $0.tree(c, doc(id)) }
                let base = tree?.entries.randomElement(using: &random)?.revision
                let history = base.map { [$0] + (tree?.ancestors(of: $0) ?? []) } ?? []
                let new = RevisionDigest.revision(parent: base, deleted: false, canonicalBody: Array("{\"r\":\(step)}".utf8))
                do {
                    _ = try await store.insert(id, new.text, history.map(\.text), body: "{\"r\":\(step)}", remote: remote, step % 2 == 0 ? .store : .refuse)
                } catch StoreError.tooManyBranches {}
            case 5:
                if let current, let remote {
                    try await store.database.write { try $0.setRemoteRevisions(remote, c, [(doc(id), current.revision)]) }
                }
            case 6:
                if try await store.conflict(id) != nil {
                    _ = try await store.resolve(id, [.localWins, .remoteWins, .delete, .merged(Array("{\"m\":\(step)}".utf8))].randomElement(using: &random) ?? .delete)
                }
            default:
                if step % 40 == 0 { try await store.database.write { _ = try $0.purge(c, doc(id)) } }
            }
        }
        // Everything agrees with everything.
        let rows = try await store.database.read { try $0.changes(c, since: 0, limit: 1000, includeBodies: true) }
        let statistics = try await store.statistics()
        #expect(statistics.documents == rows.filter { !$0.isDeleted }.count)
        #expect(statistics.deleted == rows.filter(\.isDeleted).count)
        let listed = try await store.database.read { try $0.pendingConflicts(c, limit: 1000).map(\.id) }
        #expect(Set(listed) == Set(rows.filter(\.hasConflict).map(\.id)))
        for row in rows {
            let tree = try row.revisionTree()
            // In a conflict with a remote the local side is read; otherwise the deterministic winner.
            if row.hasConflict {
                #expect(tree.leaves.contains { $0.revision == row.revision && $0.isDeleted == row.isDeleted })
            } else {
                #expect(tree.winner?.revision == row.revision)
                #expect(tree.winner?.isDeleted == row.isDeleted)
            }
            for leaf in tree.leaves where !leaf.isDeleted {
                #expect(try await store.database.read { try $0.body(c, row.id, leaf.revision) } != nil)
            }
            #expect(try await (store.conflict(row.id.text) != nil) == row.hasConflict)
        }
        #expect(try await store.database.compact().bodiesRemoved == 0)
    }
}
