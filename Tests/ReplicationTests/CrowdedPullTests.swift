import BLIP
import Environment
import TestSupport
import Testing

@testable import Replication

/// A peer offers more than it is asked for at once, while others have most of the memory.
@Suite(.timeLimit(.minutes(5)))
struct CrowdedPullTests {
    private static let place = [("collection", "0")]

    /// As long as those of a cluster with many shards: open rows then take much memory.
    private static func sequence(_ number: Int) -> String { "\"\(number)-\(String(repeating: "x", count: 7_000))\"" }

    private static func offer(_ numbers: Range<Int>, by peer: Peer) async -> Bool {
        let rows = numbers.map { "[\(sequence($0)),\"d\($0)\",\"1-aa\"]" }.joined(separator: ",")
        let reply = await peer.ask("changes", place, "[\(rows)]")
        return reply.map { $0.error == nil } ?? false
    }

    /// The list waits until revisions that were requested earlier are here, and these wait to be read.
    @Test func aListThatWaitsForRevisionsDoesNotKeepThemFromBeingRead() async throws {
        let (database, memory, count) = (try TestDatabase("device"), MemoryBudget(limit: 2 << 20), 96)
        let listener = FakeListener { $0.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply() }
        let configuration = ReplicatorConfiguration(database, .pull, continuous: true) { $0.limits.requestedRevisions = count }
        let replicator = Replicator(configuration: configuration, connector: listener, environment: .system, memory: memory, logger: quietLogger())
        await replicator.start()
        var peers = listener.peers.makeAsyncIterator()
        let next = await peers.next()
        let peer = try #require(next)
        for await request in peer.requests where request.profile == "subChanges" { break }
        for first in stride(from: 1, through: count, by: 8) {
            let isAnswered = await Self.offer(first..<first + 8, by: peer)
            #expect(isAnswered)
        }
        // The open rows are more than this connection's part of what is left, and no more is used than somebody would have to go for.
        let others = memory.register { _ in }
        _ = others.hold(memory.limit / 8 * 7 - memory.used, owedByPeer: 0)
        async let isLastAnswered = Self.offer(count + 1..<count + 2, by: peer)
        let sessions = await replicator.sessions
        let session = try #require(sessions.first)
        try await eventually("the last list waits") { await session.bytesBuffered > 0 }
        let standing = await session.standing
        #expect(standing == .crowded)
        for number in 1...count {
            let reply = await peer.ask("rev", Self.place + [("id", "d\(number)"), ("rev", "1-aa"), ("sequence", Self.sequence(number))], "{}")
            try #require(reply != nil && reply?.error == nil)
        }
        let isAnswered = await isLastAnswered
        #expect(isAnswered)
        let stored = try await database.count()
        #expect(stored == count)
        await replicator.stop()
        withExtendedLifetime(others) {}
    }
}

extension ReplicationSession {
    fileprivate var bytesBuffered: Int { driver.accounts.bufferedBytes }
    fileprivate var standing: MemoryBudget.Standing { driver.accounts.standing }
}
