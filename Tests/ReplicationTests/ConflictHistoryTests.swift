import Documents
import DocumentStore
import Interfaces
import Replication
import Synchronization
import TestRandomness
import Testing

/// What is recorded about decided conflicts, whoever decided them, and about resolvers that only watch.
@Suite(.timeLimit(.minutes(10)))
struct ConflictHistoryTests {
    private func diverged(_ hub: Hub, _ a: TestDatabase, _ b: TestDatabase) async throws {
        try await a.put("x", "{\"base\":true}")
        await replicate(a, hub)
        try await a.put("x", "{\"at\":\"a\"}")
        try await b.put("x", "{\"at\":\"b\"}")
    }

    private func history(_ database: TestDatabase) async throws -> [ConflictHistoryEntry] {
        try await database.database.read { try $0.conflictHistory(limit: 100, includeBodies: true) }
    }

    @Test func aPulledConflictIsRecorded() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let (mine, theirs) = (try await a.get("x")?.revision, try await b.get("x")?.revision)
        let events = Collected()
        await replicate(a, hub) {
            $0.only { $0.resolver = TestResolver { _ in .merged(Array("{\"at\":\"both\"}".utf8)) } }
            $0.conflictObserver = { events.add($0) }
        }
        let entry = try #require(try await history(a).first)
        #expect(entry.place == ConflictPlace(kind: .replicator, name: "test", peer: "ws://hub/db"))
        #expect(entry.local.revision == mine && entry.remote.revision == theirs && entry.decision == .merged)
        #expect(text(entry.local.body?.whole) == "{\"at\":\"a\"}" && text(entry.remote.body?.whole) == "{\"at\":\"b\"}")
        #expect(text(entry.base?.body?.whole) == "{\"base\":true}" && text(entry.result.body?.whole) == "{\"at\":\"both\"}")
        #expect(entry.result.revision == (try await a.get("x")?.revision))
        #expect(entry.plugin == "test-resolver" && entry.version == "1" && entry.microseconds >= 0)
        #expect(try await history(a).count == 1)
        #expect(try await history(b).isEmpty)
        #expect(events.words == ["x decided merged 1"])
    }

    @Test func theDefaultRuleIsRecordedWithoutAPlugin() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        await replicate(a, hub)
        let entry = try #require(try await history(a).first)
        #expect(entry.plugin == "" && entry.version == "")
        #expect(entry.result.body == (entry.decision == .local ? entry.local.body : entry.remote.body))
    }

    @Test func aFailureIsNotRecordedButReportedOnce() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        try await diverged(hub, a, b)
        let events = Collected()
        let failing = TestResolver { _ in .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "p.lua:1: no")) }
        for _ in 0..<2 {
            await replicate(a, hub) {
                $0.only { $0.resolver = failing }
                $0.conflictObserver = { events.add($0) }
            }
        }
        #expect(try await history(a).isEmpty)
        let collection = try a.collection()
        let pending = try #require(try await a.database.read { try $0.pendingConflict(collection, doc("x")) })
        #expect(pending.tries >= 2 && pending.error == "p.lua:1: no")
        #expect(events.words == ["x pending p.lua:1: no"])
    }

    // MARK: a peer's push

    private func passive(_ b: TestDatabase, _ resolver: any ConflictResolver, shadow: ShadowResolver? = nil) -> Hub {
        var configuration = PassiveConfiguration(listener: "edge", database: b.database)
        configuration.resolver = resolver
        configuration.shadow = shadow
        return Hub(configuration, owner: b)
    }

    @Test func theListenersResolverDecidesForAPeerThatOnlyPushes() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await diverged(Hub(b), a, b)
        let context = Mutex<PolicyContext?>(nil)
        let resolver = ContextResolver { conflict, found in
            context.withLock { $0 = found }
            #expect(text(conflict.local?.body) == "{\"at\":\"b\"}" && text(conflict.remote?.body) == "{\"at\":\"a\"}")
            return .merged(Array("{\"at\":\"both\"}".utf8))
        }
        let hub = passive(b, resolver)
        let status = await replicate(a, hub, .push)
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.failed == 0)
        try await b.wait { try await $0.body("x") == "{\"at\":\"both\"}" }
        let entry = try #require(try await history(b).first)
        #expect(entry.place.kind == .listener && entry.place.name == "edge" && entry.decision == .merged)
        #expect(entry.base?.revision.generation == 1)
        let found = context.withLock { $0 }
        #expect(found?.listener == "edge" && found?.replicator == nil && found?.direction == .pull)
        // The peer gets the decision as soon as it pulls, without a conflict of its own.
        let pulled = await replicate(a, hub, .pull) { $0.only { $0.resolver = TestResolver { _ in .local } } }
        #expect(pulled.error == nil && pulled.counts.resolved == 0)
        #expect(try await a.body("x") == "{\"at\":\"both\"}")
        #expect(try await a.contents() == b.contents())
    }

    /// As Couchbase Lite does it: if both decided, they might never agree.
    @Test func aPeerThatAlsoPullsDecidesItself() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await diverged(Hub(b), a, b)
        let hub = passive(b, TestResolver { _ in .local })
        let status = await replicate(a, hub) { $0.only { $0.resolver = TestResolver { _ in .local } } }
        #expect(status.error == nil)
        for _ in 0..<3 { await replicate(a, hub) { $0.only { $0.resolver = TestResolver { _ in .local } } } }
        #expect(try await a.contents() == b.contents())
        #expect(try await b.database.statistics().first?.conflictsPending == 0)
        #expect(try await history(a).count >= 1)
        #expect(try await history(b).isEmpty)
    }

    @Test func aListenersFailingResolverLosesNeitherSide() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await diverged(Hub(b), a, b)
        let hub = passive(b, TestResolver { _ in .failed(PolicyFailure(plugin: "p", version: "1", kind: "plugin_error", message: "p.lua:9: no")) })
        let status = await replicate(a, hub, .push)
        #expect(status.counts.pushed == 1)
        let collection = try b.collection()
        while try await b.database.read({ try $0.pendingConflict(collection, doc("x")) })?.tries != 1 { await Task.yield() }
        #expect(try await b.body("x") == "{\"at\":\"b\"}")
        let conflict = try #require(try await b.database.read { try $0.conflict(collection, doc("x")) })
        #expect(text(conflict.remote.body) == "{\"at\":\"a\"}" && conflict.remoteID == .pusher)
        // It is on the list of the listener: a decider for the listener finds it there, and one for another replicator does not.
        let repaired = ConflictDecider(
            database: b.database, collection: collection, resolver: TestResolver { _ in .remote },
            context: PolicyContext(database: "b", collection: .default, direction: .pull, remote: ""), scope: .others(than: [RemoteID(7)]))
        let stranger = ConflictDecider(
            database: b.database, collection: collection, resolver: nil, context: repaired.context, scope: .remote(RemoteID(7)))
        #expect(try await stranger.conflicted(after: nil, limit: 10).ids == [])
        let ids = try await repaired.conflicted(after: nil, limit: 10).ids
        #expect(try await repaired.decide(ids).map(\.isDecided) == [true])
        #expect(try await b.body("x") == "{\"at\":\"a\"}")
    }

    /// A third peer, which holds the losing side, follows instead of deciding again, because the decision has more generations.
    @Test func aListenersDecisionIsNotUndoneByOthers() async throws {
        let (a, b, c) = (try TestDatabase("a"), try TestDatabase("b"), try TestDatabase("c"))
        try await diverged(Hub(b), a, b)
        for n in 0..<4 { try await b.put("x", "{\"at\":\"b\",\"n\":\(n)}") }
        await replicate(c, Hub(b))
        let hub = passive(b, TestResolver { _ in .remote })
        await replicate(a, hub, .push)
        try await b.wait { try await $0.body("x") == "{\"at\":\"a\"}" }
        let status = await replicate(c, hub)
        #expect(status.error == nil && status.counts.resolved == 0)
        #expect(try await history(c).isEmpty)
        await replicate(a, hub)
        for database in [a, b, c] { #expect(try await database.body("x") == "{\"at\":\"a\"}") }
    }

    /// Peers push and pull in turns, so that the listener decides: whatever it decides, all end up equal.
    @Test(arguments: [UInt64(21), 22, 23, 24, 25, 26])
    func decidedPushesConverge(_ seed: UInt64) async throws {
        var random = SeededGenerator(seed: seed)
        let b = try TestDatabase("hub")
        let decisions = Mutex(SeededGenerator(seed: seed &+ 1000))
        let hub = passive(
            b,
            TestResolver { conflict in
                switch decisions.withLock({ Int.random(in: 0..<8, using: &$0) }) {
                case 0...1: .local
                case 2...3: .remote
                case 4: .delete
                default: .merged(Array("{\"merged\":\"\(conflict.localRevision) \(conflict.remoteRevision)\"}".utf8))
                }
            })
        func settle() async throws {
            while try await b.database.statistics().first?.conflictsPending != 0 { try await Task.sleep(for: .milliseconds(2)) }
        }
        let peers = [try TestDatabase("p"), try TestDatabase("p"), try TestDatabase("p")]
        let all = peers + [b]
        for step in 0..<150 {
            let place = all[Int.random(in: 0..<all.count, using: &random)]
            let id = "doc-\(Int.random(in: 0..<5, using: &random))"
            let deletes = Int.random(in: 0..<6, using: &random) == 0
            if let now = try await place.get(id), now.isDeleted, deletes { continue }
            try await place.put(id, "{\"step\":\(step)}", deleted: deletes)
            guard Int.random(in: 0..<2, using: &random) == 0 else { continue }
            let type: ReplicatorType = [.push, .pull, .pushAndPull][Int.random(in: 0..<3, using: &random)]
            let status = await replicate(peers[Int.random(in: 0..<3, using: &random)], hub, type)
            #expect(status.error == nil, "seed \(seed)")
            try await settle()
        }
        for _ in 0..<8 {
            for peer in peers {
                await replicate(peer, hub, .push)
                try await settle()
                await replicate(peer, hub, .pull)
            }
        }
        for peer in peers { #expect(try await peer.contents() == b.contents(), "seed \(seed)") }
        #expect(try await !history(b).isEmpty)
    }

    @Test func withoutAResolverAPushedConflictIsRefused() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await diverged(Hub(b), a, b)
        let status = await replicate(a, Hub(b), .push)
        #expect(status.counts.pushed == 0 && status.counts.failed == 1)
        #expect(try await history(b).isEmpty)
    }

    // MARK: shadows

    private final class Counter: ShadowCounter {
        let findings = Mutex<[ShadowFinding]>([])
        let skipped = Mutex(0)
        func count(_ findings: [ShadowFinding], serving: String, candidate: String) { self.findings.withLock { $0 += findings } }
        func skipped(_ count: Int) { skipped.withLock { $0 += count } }
    }

    @Test func aShadowOnlyWatches() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let hub = Hub(b)
        for id in ["differs", "fails", "same"] { try await a.put(id, "{\"base\":true}") }
        await replicate(a, hub)
        for id in ["differs", "fails", "same"] {
            try await a.put(id, "{\"at\":\"a\",\"n\":1}")
            try await b.put(id, "{\"at\":\"b\"}")
        }
        let counter = Counter()
        let shadow = ShadowResolver(
            TestResolver { conflict in
                switch conflict.id.text {
                case "differs": .merged(Array("{\"at\":\"shadow\"}".utf8))
                case "fails": .failed(PolicyFailure(plugin: "test-resolver", version: "1", kind: "plugin_timeout", message: "s.lua:4: slow"))
                // The same document, written differently.
                default: .merged(Array("{\"n\":1,\"at\":\"a\"}".utf8))
                }
            }, database: a.database, counter: counter)
        let status = await replicate(a, hub) {
            $0.only {
                $0.resolver = TestResolver { _ in .local }
                $0.shadow = shadow
            }
        }
        #expect(status.error == nil && status.counts.resolved == 3)
        await shadow.drained()
        for id in ["differs", "fails", "same"] { #expect(try await b.body(id) == "{\"at\":\"a\",\"n\":1}") }
        let entries = try await history(a).reduce(into: [:]) { $0[$1.id.text] = $1 }
        #expect(entries.values.allSatisfy { $0.decision == .local })
        #expect(entries["same"]?.shadow?.outcome == .same)
        let differs = try #require(entries["differs"]?.shadow)
        #expect(differs.outcome == .differs && differs.decision == .merged && text(differs.body?.whole) == "{\"at\":\"shadow\"}")
        let fails = try #require(entries["fails"]?.shadow)
        #expect(fails.outcome == .failed && fails.error == "plugin_timeout: s.lua:4: slow" && fails.decision == nil)
        let counts = try await a.database.read { try $0.conflictHistoryCounts() }
        #expect(counts.shadowSame == 1 && counts.shadowDiffers == 1 && counts.shadowFailed == 1)
        let findings = counter.findings.withLock { $0 }.reduce(into: [:]) { $0[$1.id.text] = $1 }
        #expect(findings.count == 3 && findings["same"]?.outcome == .same)
        #expect(findings["differs"]?.outcome == .different && findings["differs"]?.candidate == "merged")
        #expect(findings["differs"]?.serving.hasPrefix("local (nightjar conflicts show ") == true, "\(findings)")
        #expect(findings["fails"]?.outcome == .failed && findings["fails"]?.candidate == "plugin_timeout: s.lua:4: slow")
    }

    /// A shadow that never answers delays nobody, and the conflicts that it could not look at are reported.
    @Test func aShadowThatHangsDelaysNobody() async throws {
        let (a, b) = (try TestDatabase("a") { $0.conflictHistory = 10_000 }, try TestDatabase("b"))
        let hub = Hub(b)
        for start in [0, 400, 800] { try await a.fill(start..<start + 400) }
        await replicate(a, hub)
        for database in [a, b] {
            let collection = try database.collection()
            let at = database === a ? "a" : "b"
            try await database.database.write { transaction in
                for n in 0..<1_200 {
                    let parent = try transaction.document(collection, doc("doc-\(n)"))?.revision
                    try transaction.save(collection, id: doc("doc-\(n)"), body: Array("{\"at\":\"\(at)\"}".utf8), parent: parent)
                }
            }
        }
        let gate = Gate()
        let counter = Counter()
        let shadow = ShadowResolver(GatedResolver(gate), database: a.database, counter: counter)
        let status = await replicate(a, hub) {
            $0.only {
                $0.resolver = TestResolver { _ in .local }
                $0.shadow = shadow
            }
        }
        #expect(status.error == nil && status.counts.resolved == 1_200)
        #expect(try await a.contents() == b.contents())
        await gate.open()
        await shadow.drained()
        let counts = try await a.database.read { try $0.conflictHistoryCounts() }
        #expect(counts.kept == 1_200 && counts.shadowSame + counts.shadowFailed == 1_200)
        #expect(counts.shadowFailed >= 100 && counts.shadowSame >= 1_000, "\(counts)")
        // Skipping a conflict for lack of room is counted with the failures, but is not a finding of the shadow's.
        #expect(counter.skipped.withLock { $0 } == counts.shadowFailed && counter.findings.withLock { $0.count } == counts.shadowSame)
    }
}

/// What a replicator reported, in words.
private final class Collected: Sendable {
    private let all = Mutex([String]())
    var words: [String] { all.withLock { $0 } }

    func add(_ event: ConflictEvent) {
        let words = switch event.kind {
        case .decided(let decision, _, let number): "decided \(decision) \(number ?? -1)"
        case .pending(let failure): "pending \(failure.message)"
        }
        all.withLock { $0.append("\(event.id) \(words)") }
    }
}

private struct ContextResolver: ConflictResolver {
    let pluginName = "context"
    let version = "1"
    let rule: @Sendable (PolicyConflict, PolicyContext) -> ConflictDecision
    init(_ rule: @escaping @Sendable (PolicyConflict, PolicyContext) -> ConflictDecision) { self.rule = rule }
    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision { rule(conflict, context) }
    func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

/// Keeps callers waiting until somebody opens it.
private actor Gate {
    private var isOpen = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func pass() async {
        if !isOpen { await withCheckedContinuation { waiting.append($0) } }
    }

    func open() {
        isOpen = true
        for continuation in waiting { continuation.resume() }
        waiting = []
    }
}

private struct GatedResolver: ConflictResolver {
    let pluginName = "gated"
    let version = "1"
    let gate: Gate
    init(_ gate: Gate) { self.gate = gate }
    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision {
        await gate.pass()
        return .local
    }
    func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}
