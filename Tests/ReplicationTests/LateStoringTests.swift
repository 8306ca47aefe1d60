import Dispatch
import Environment
import Testing
import TestSupport

@testable import Replication

/// The connection ends while what the peer sent is being stored.
@Suite(.timeLimit(.minutes(10)))
struct LateStoringTests {
    @Test func whatIsStoredAfterTheEndIsCountedAllTheSame() async throws {
        let database = try TestDatabase("hub")
        let gate = DispatchSemaphore(value: 0)
        await withCheckedContinuation { holds in
            database.database.write { _ in
                holds.resume()
                gate.wait()
            } completion: { (_: Result<Void, any Error>) in }
        }
        let (session, client) = await MemoryHub(database: database, memory: MemoryBudget(limit: 64 << 20)).session()
        let peer = Peer(client) { _ in nil }
        await peer.begin()
        peer.send(peer.request("rev", [("collection", "0"), ("id", "x"), ("rev", "1-aa"), ("history", "")], "{}"))
        try await eventually("the writer is to store it") { await session.batchesUnderWay == 1 }
        peer.close()
        try await eventually("the session has ended") { await session.hasEnded }
        #expect(session.counters.snapshot.pulled == 0)
        gate.signal()
        try await eventually("it is counted") { session.counters.snapshot.pulled == 1 }
        #expect(try await database.get("x") != nil)
    }
}

extension ReplicationSession {
    fileprivate var batchesUnderWay: Int { driver.batchesUnderWay }
    fileprivate var hasEnded: Bool { driver.hasEnded }
}
