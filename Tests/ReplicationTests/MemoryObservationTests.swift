import Environment
import Synchronization
import Testing

/// Memory that the process uses beyond what is accounted for reduces the budget for peers.
@Suite struct MemoryObservationTests {
    /// How much memory the process takes, set by a test.
    private final class Process: Sendable {
        private let megabytes: Mutex<Int>
        init(_ megabytes: Int) { self.megabytes = Mutex(megabytes) }
        var memory: Int { megabytes.withLock { $0 } << 20 }
        func takes(_ megabytes: Int) { self.megabytes.withLock { $0 = megabytes } }
    }

    private let process = Process(30)
    private let clock = MemoryBudgetTests.HandClock()
    private let megabyte = 1 << 20

    private func budget(_ megabytes: Int = 64) -> MemoryBudget {
        MemoryBudget(limit: megabytes * megabyte, time: clock, processMemory: { [process] in process.memory })
    }

    /// How many megabytes a peer may make the agent hold while the process takes `overhead` more than that.
    private func room(_ budget: MemoryBudget, overhead: Int) -> Int {
        let share = budget.register { _ in }
        for held in 1...64 {
            process.takes(30 + held + overhead)
            if share.hold(held * megabyte, owedByPeer: held * megabyte) == .evicted { return held - 1 }
        }
        return 64
    }

    @Test func unaccountedMemoryLeavesLessForPeers() {
        let budget = budget()
        budget.noteRest()
        #expect(room(budget, overhead: 0) == 56)
        process.takes(30)
        #expect(room(budget, overhead: 10) == 46)
    }

    @Test func peersThatHoldLittleStayWhateverElseTheProcessHolds() {
        let budget = budget()
        budget.noteRest()
        #expect(room(budget, overhead: 500) == 24)
    }

    @Test func memoryTakenAtRestIsNotCountedAgainstPeers() {
        let budget = budget()
        budget.noteRest()
        // As if another database had been opened.
        process.takes(90)
        budget.noteRest()
        let share = budget.register { _ in }
        process.takes(140)
        #expect(share.hold(50 * megabyte, owedByPeer: 50 * megabyte) != .evicted)
    }

    @Test func memoryHeldBecauseOfPeersIsNotTheRestingSize() {
        let budget = budget()
        budget.noteRest()
        let (share, other) = (budget.register { _ in }, budget.register { _ in })
        _ = other.hold(1, owedByPeer: 0)
        process.takes(80)
        _ = share.hold(30 * megabyte, owedByPeer: 30 * megabyte)
        // 20 MiB are not accounted for, and must not become part of the resting size.
        budget.noteRest()
        #expect(share.hold(37 * megabyte, owedByPeer: 37 * megabyte) == .crowded)
    }

    @Test func unaccountedMemoryIsWhatTheProcessTakesBeyondItsRestingSize() {
        let budget = budget()
        #expect(budget.uncounted == 0)
        budget.noteRest()
        let share = budget.register { _ in }
        _ = share.hold(20 * megabyte, owedByPeer: 0)
        process.takes(90)
        #expect(budget.uncounted == 40 * megabyte)
        process.takes(40)
        #expect(budget.uncounted == 0)
        withExtendedLifetime(share) {}
    }

    @Test func observingCostsNothingWhileLittleChanges() {
        let looks = Mutex(0)
        let budget = MemoryBudget(limit: 64 * megabyte, time: clock, processMemory: {
            looks.withLock { $0 += 1 }
            return 30 << 20
        })
        budget.noteRest()
        let share = budget.register { _ in }
        for round in 0..<10_000 { _ = share.hold(round % 1_000, owedByPeer: 0) }
        #expect(looks.withLock { $0 } == 1)
    }
}
