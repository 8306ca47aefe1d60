import Documents
import DocumentStore
import Encodings
import HTTPServer
import Interfaces
import Replication
import TestRandomness
import Testing
import Transport

@testable import Replication

/// Decisions made before it was known which branches the peer has, and decisions that others made differently in the meantime: once all is quiet, the
/// peer and all agents have the same winner.
@Suite(.timeLimit(.minutes(5)))
struct CouchDivergenceTests {
    /// Several documents: in some the branch of the late push is the greater one, in others that of the decision.
    private let ids = (0..<12).map { "x\($0)" }

    /// What has become of the documents of agent `b` after it had decided without knowing that its push had arrived.
    private struct Race {
        let server: CouchServer
        let target: String
        let b: TestDatabase
        /// What `b` had pushed, with its history, the newest first, and its decision.
        var pushed: [String: [RevisionID]] = [:]
        var decided: [String: RevisionID] = [:]

        /// The documents of which the peer prefers the revision pushed.
        var overtaken: [String] { decided.keys.sorted().filter { id in (pushed[id]?.first).map { decided[id]! < $0 } ?? false } }

        func run(reset: Bool = false, _ resolver: TestResolver? = CouchDivergenceTests.local) async throws {
            let configuration = ReplicatorConfiguration(b, to: target) { $0.only { $0.resolver = resolver } }
            let status = await Replicator(configuration, try DatabaseClient(target)).run(reset: reset)
            try #require(status.error == nil, "\(status)")
        }

        /// Another agent, to which the revision pushed is the winner, ends the branch of the decision.
        func endDecisions() throws {
            for id in overtaken {
                let leaf = try #require(decided[id]).text
                server.change { _ = $0.edit(id, "{}", on: leaf, isDeleted: true) }
            }
        }

        func expectAgreement(_ place: SourceLocation = #_sourceLocation) async throws {
            #expect(try await b.contents() == server.tree.contents, sourceLocation: place)
            for id in decided.keys {
                let document = try #require(server.tree.documents[id])
                #expect(document.leaves.count { document.revisions[$0]?.isDeleted == false } == 1, "\(document.leaves)", sourceLocation: place)
            }
        }
    }

    private static let local = TestResolver { _ in .local }
    private static let remote = TestResolver { _ in .remote }
    private static let merging = TestResolver { conflict in
        guard let here = conflict.local, let there = conflict.remote else { return .delete }
        let words = Set([here, there].flatMap { String(decoding: $0.body, as: UTF8.self).split { !$0.isNumber && !$0.isLetter }.map(String.init) }).subtracting(["n"])
        return .merged(Array("{\"n\":\"\(words.sorted().joined(separator: " "))\"}".utf8))
    }

    /// Which of several tombstones is current makes no difference.
    private static func withoutTombstones(_ contents: [String]) -> [String] {
        contents.map { line in line.contains(" true ") ? "\(line.prefix { $0 != " " }) is deleted" : line }
    }

    /// `b` edits each document twice. Before it knows that this has arrived, it pulls the edit of somebody else, and decides for its own.
    ///
    /// - Parameter keepsBranches: it knows of peers that keep every branch, so that its own edit remains there, as a branch that has ended.
    private func withRace(keepsBranches: Bool = true, _ body: (Race) async throws -> Void) async throws {
        try await CouchServer.with { server, target in
            let b = try TestDatabase("b")
            if keepsBranches { await b.database.noteBranchKeeper() }
            for id in ids { try await b.put(id, "{\"n\":\"one\"}") }
            var race = Race(server: server, target: target, b: b)
            try await race.run()
            var late: [JSONObject] = []
            for id in ids {
                let root = try #require(try await b.get(id)?.revision)
                let middle = try await b.put(id, "{\"n\":\"two\"}")
                let pushed = try await b.put(id, "{\"n\":\"three of \(id)\"}")
                race.pushed[id] = [pushed, middle, root]
                server.change { _ = $0.edit(id, "{\"n\":\"of another\"}", on: root.text) }
                let ids = [pushed, middle, root].map { JSONValue.string(String($0.text.drop { $0 != "-" }.dropFirst())) }
                late.append(
                    JSONObject([
                        .init(key: "_id", value: .string(id)), .init(key: "_rev", value: .string(pushed.text)),
                        .init(key: "_revisions", value: ["start": 3, "ids": .array(ids)]), .init(key: "n", value: .string("three of \(id)")),
                    ]))
            }
            try await race.run()
            for id in ids { race.decided[id] = try #require(try await b.get(id)?.revision) }
            #expect(race.overtaken.count > 0 && race.overtaken.count < ids.count)
            server.change { tree in for each in late { #expect(tree.replicate(each) == nil) } }
            try await body(race)
        }
    }

    @Test("a branch dropped here that turns out to be the peer's winner is taken up again, whether or not others have ended ours", arguments: [true, false], [true, false])
    func latePush(isEnded: Bool, keepsBranches: Bool) async throws {
        try await withRace(keepsBranches: keepsBranches) { race in
            if isEnded { try race.endDecisions() }
            for _ in 0..<2 { try await race.run() }
            try await race.expectAgreement()
            let sequence = race.server.tree.sequence
            // The content is in each case that of the edit which arrived late, and nothing is decided once more.
            for id in ids { #expect(try await race.b.body(id) == "{\"n\":\"three of \(id)\"}") }
            for _ in 0..<2 { try await race.run() }
            #expect(race.server.tree.sequence == sequence)
        }
    }

    @Test("an edit that the peer does not have is not dropped for a branch that is taken up again", arguments: [true, false], [true, false])
    func edited(isEnded: Bool, keepsBranches: Bool) async throws {
        try await withRace(keepsBranches: keepsBranches) { race in
            for id in ids { try await race.b.put(id, "{\"n\":\"later\"}") }
            if isEnded { try race.endDecisions() }
            for _ in 0..<3 { try await race.run() }
            try await race.expectAgreement()
            for id in ids { #expect(try await race.b.body(id) == "{\"n\":\"later\"}") }
        }
    }

    @Test("a reset mends what had diverged earlier")
    func reset() async throws {
        try await withRace { race in
            try race.endDecisions()
            // As an earlier version did, it does not look at the branches.
            race.server.trouble { request, _ in
                guard (try? request.queryValue("open_revs")) != nil else { return nil }
                return .error(status: 404, error: "not_found", reason: "missing")
            }
            for _ in 0..<2 { try await race.run() }
            race.server.trouble { _, _ in nil }
            for id in race.overtaken { #expect(try await race.b.get(id)?.revision == race.decided[id]) }
            try await race.run(reset: true)
            try await race.run()
            try await race.expectAgreement()
        }
    }

    @Test("a branch that was deleted here before it was dropped is taken up again as well")
    func deletedBranch() async throws {
        try await CouchServer.with { server, target in
            let b = try TestDatabase("b")
            await b.database.noteBranchKeeper()
            var race = Race(server: server, target: target, b: b)
            for id in ids { try await b.put(id, "{\"n\":\"one\"}") }
            try await race.run()
            for id in ids {
                let root = try #require(try await b.get(id)?.revision)
                server.change { _ = $0.edit(id, "{\"n\":\"of another\"}", on: root.text) }
                try await b.put(id, "{}", deleted: true)
            }
            try await race.run(Self.remote)
            for id in ids {
                let current = try #require(try await b.get(id)?.revision)
                race.decided[id] = current
                // Somebody does not know of either.
                server.change { tree in
                    let root = tree.documents[id]?.path(current.text).last
                    tree.edit(id, "{\"n\":\"branch\"}", on: root)
                    tree.edit(id, "{}", on: current.text, isDeleted: true)
                }
            }
            for _ in 0..<3 { try await race.run(Self.remote) }
            #expect(try await b.contents() == server.tree.contents)
        }
    }

    @Test("agents that replicate continuously, with slow pushes, agree with each other and with the peer once all is quiet", arguments: 0..<16)
    func allAgree(_ seed: Int) async throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let opinions: [TestResolver?] = [nil, Self.local, Self.remote, Self.merging]
        let agents = try (0..<2 + seed % 2).map { try TestDatabase("a\($0)") }
        let own = agents.map { _ in seed % 3 == 0 ? Self.local : opinions[Int.random(in: 0..<opinions.count, using: &random)] }
        if seed % 4 < 2 { for agent in agents { await agent.database.noteBranchKeeper() } }
        try await CouchServer.with { server, target in
            let ids = (0..<3).map { "d\($0)" }
            for id in ids { server.change { _ = $0.edit(id, "{\"n\":\"root\"}") } }
            server.state.withLock { state in
                let delays = (0..<97).map { _ in random.below(3) == 0 ? random.below(120) : random.below(8) }
                state.delay = { number in delays[number % delays.count] }
            }
            let replicators = try agents.indices.map { index in
                let configuration = ReplicatorConfiguration(agents[index], to: target, continuous: true) { $0.only { $0.resolver = own[index] } }
                return Replicator(configuration, try DatabaseClient(target))
            }
            for each in replicators { await each.start() }
            for agent in agents { for id in ids { try await agent.wait { try await $0.body(id) != nil } } }
            for step in 0..<100 {
                let (id, agent) = (ids[random.below(ids.count)], random.below(agents.count + 1))
                let isDeleted = random.below(8) == 0
                let body = isDeleted ? "{}" : "{\"n\":\"s\(step)\"}"
                if agent == agents.count {
                    server.change { _ = $0.edit(id, body, isDeleted: isDeleted) }
                } else if try await agents[agent].body(id) != nil || !isDeleted {
                    // It may have been deleted in between.
                    _ = try? await agents[agent].put(id, body, deleted: isDeleted)
                }
                try await Task.sleep(for: .milliseconds(random.below(10)))
            }
            var quiet = 0
            var last = -1
            var there: [String] = []
            // Until nothing has changed for a second.
            for _ in 0..<600 where quiet < 10 {
                try await Task.sleep(for: .milliseconds(100))
                let sequence = server.tree.sequence
                there = Self.withoutTombstones(server.tree.contents)
                var isSame = sequence == last
                for agent in agents where isSame { isSame = Self.withoutTombstones(try await agent.contents()) == there }
                quiet = isSame ? quiet + 1 : 0
                last = sequence
            }
            for each in replicators { await each.stop() }
            let trees = server.tree.documents.map { id, document in
                "\n\(id): " + document.leaves.map { leaf in document.path(leaf).map { "\($0.prefix(6))\(document.revisions[$0]?.isDeleted == true ? "x" : "")" }.joined(separator: " ") }.joined(separator: " | ")
            }.sorted().joined()
            #expect(quiet == 10, "seed \(seed): it never came to rest, at change \(last)\(trees)")
            for (index, agent) in agents.enumerated() {
                let here = Self.withoutTombstones(try await agent.contents())
                #expect(here == there, "\(Set(here).symmetricDifference(there).sorted()) seed \(seed), agent \(index) (opinion \(opinions.firstIndex { $0 === own[index] } ?? -1))\(trees)")
            }
        }
    }
}
