import BLIP
import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore
import Replication
import Synchronization
import Testing

/// A gateway's clock was an hour ahead and has been corrected. Until that hour has passed, Couchbase Lite 4 refuses what was edited meanwhile.
@Suite("Documents whose versions are in the future", .timeLimit(.minutes(5)))
struct AwaitedTimeTests {
    /// 15 November 2026.
    private static let start: Int64 = 1_794_700_800
    private static let hour: Int64 = 3_600

    /// Everybody's wall clock, set by hand.
    private final class HandClock: TimeSource {
        private let wall = Mutex(AwaitedTimeTests.start)

        func monotonicNanoseconds() -> UInt64 { SystemTime().monotonicNanoseconds() }
        func wallSeconds() -> Int64 { wall.withLock { $0 } }
        func sleep(nanoseconds: UInt64) async throws { try await SystemTime().sleep(nanoseconds: nanoseconds) }
        func set(_ seconds: Int64) { wall.withLock { $0 = seconds } }
        var environment: Environment { Environment(time: self, random: SystemRandom()) }
    }

    /// Couchbase Lite 4, as far as it checks incoming versions: like LiteCore's `HybridClock`, it checks all versions of a vector.
    private final class StrictPeer: Sendable {
        private let clock: HandClock
        /// How far its clock is behind.
        let isBehind = Mutex<Int64>(0)
        private let counted = Mutex((taken: [String: String](), refused: [String: Int]()))

        init(_ clock: HandClock) { self.clock = clock }

        var taken: [String] { counted.withLock { $0.taken.keys.sorted() } }
        func body(_ id: String) -> String? { counted.withLock { $0.taken[id] } }
        func refusals(of id: String) -> Int { counted.withLock { $0.refused[id] ?? 0 } }

        func answer(_ request: IncomingRequest) -> OutgoingReply {
            switch request.profile {
            case "getCollections": return OutgoingReply(json: "[{}]")
            case "proposeChanges": return OutgoingReply(json: "[]")
            case "changes" where request.body.readableBytes > 4: return OutgoingReply(json: "[[]]")
            case "rev":
                let (id, revision) = (request.properties["id"] ?? "", request.properties["rev"] ?? "")
                let vector = try? VectorHistory(revision, history: request.properties["history"] ?? "").vector
                let latest = UInt64(clock.wallSeconds() - isBehind.withLock { $0 } + 120) * 1_000_000_000
                let isTaken = vector.map { vector in ([vector.current] + vector.others).allSatisfy { $0.time <= latest } } ?? false
                counted.withLock {
                    if isTaken { $0.taken[id] = String(buffer: request.body) } else { $0.refused[id, default: 0] += 1 }
                }
                return isTaken ? OutgoingReply() : OutgoingReply(error: "LiteCore", 4, "Invalid timestamp in version vector \(revision)")
            default: return OutgoingReply()
            }
        }
    }

    private func gateway(_ clock: HandClock) throws -> TestDatabase {
        try TestDatabase("gateway", environment: clock.environment) { $0.versionsEdits = true }
    }

    private func replicator(_ database: TestDatabase, _ peer: StrictPeer, _ clock: HandClock) -> Replicator {
        let listener = FakeListener(.generation4, hasBothNames: false) { peer.answer($0) }
        return Replicator(
            ReplicatorConfiguration(database, .push, continuous: true) {
                $0.limits.deferralSeconds = 0
                $0.limits.maximumDeferralSeconds = 0
            }, listener, environment: clock.environment)
    }

    private func until(_ holds: () async throws -> Bool) async throws {
        while try await !holds() { await Task.yield() }
    }

    @Test("they are listed with that time and offered again when it comes, and other documents are accepted")
    func pushed() async throws {
        let clock = HandClock()
        let (database, peer) = (try gateway(clock), StrictPeer(clock))
        clock.set(Self.start + Self.hour)
        try await database.put("a", #"{"n":1}"#)
        try await database.put("b", #"{"n":1}"#)
        clock.set(Self.start)
        try await database.put("c", #"{"n":1}"#)
        let replicator = replicator(database, peer, clock)
        await replicator.start()
        try await until { try await replicator.refusedCount() == 2 && peer.taken == ["c"] }
        let refused = try await replicator.refusedDocuments()
        let current = try #require(try await database.get("a")).revision
        #expect(refused.map(\.id) == [doc("a"), doc("b")] && refused.first?.revision == current && refused.allSatisfy { $0.domain == "litecore" && $0.code == 4 })
        #expect(refused.map(\.until) == [Self.start + Self.hour, Self.start + Self.hour + 1])
        let waiting = try await replicator.refusedUntil()
        #expect(waiting.count == 2 && waiting.last == Self.start + Self.hour + 1)

        // After a further edit the version from the future is still in the vector. New documents go through.
        let before = peer.refusals(of: "a")
        try await database.put("a", #"{"n":2}"#)
        try await database.put("d", #"{"n":1}"#)
        try await until { try await replicator.refusedCount() == 2 && peer.refusals(of: "a") > before && peer.taken == ["c", "d"] }
        #expect(try await replicator.refusedDocuments().first?.until == Self.start + Self.hour)

        clock.set(Self.start + Self.hour + 1)
        try await until { try await replicator.refusedCount() == 0 && peer.taken == ["a", "b", "c", "d"] }
        #expect(peer.body("a") == #"{"n":2}"#)
        await replicator.stop()
    }

    @Test("a peer whose own clock is behind is offered them now and then, until its clock is corrected")
    func slowPeer() async throws {
        let clock = HandClock()
        let (database, peer) = (try gateway(clock), StrictPeer(clock))
        peer.isBehind.withLock { $0 = Self.hour }
        try await database.put("a", #"{"n":1}"#)
        let replicator = replicator(database, peer, clock)
        await replicator.start()
        try await until { peer.refusals(of: "a") > 2 }
        // It is not known when they will be accepted.
        #expect(try await replicator.refusedDocuments().allSatisfy { $0.until == nil })
        peer.isBehind.withLock { $0 = 0 }
        try await until { try await replicator.refusedCount() == 0 && peer.taken == ["a"] }
        await replicator.stop()
    }

    @Test("a peer that pulls and stays connected is offered them again")
    func pulled() async throws {
        let clock = HandClock()
        let (database, strict) = (try gateway(clock), StrictPeer(clock))
        clock.set(Self.start + Self.hour)
        try await database.put("a", #"{"n":1}"#)
        clock.set(Self.start)
        var configuration = PassiveConfiguration(listener: "hub", database: database.database, subprotocol: .generation4)
        configuration.limits.deferralSeconds = 0
        configuration.limits.maximumDeferralSeconds = 0
        let hub = Hub(configuration, owner: database, peersHaveBothNames: false, environment: clock.environment)
        let peer = try await Peer(hub) { strict.answer($0) }
        await peer.begin()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors"), ("continuous", "true")])?.error == nil)
        try await until { strict.refusals(of: "a") == 1 }
        #expect(strict.taken.isEmpty)
        clock.set(Self.start + Self.hour + 1)
        try await until { strict.taken == ["a"] }
        #expect(await peer.isAlive())
    }
}
