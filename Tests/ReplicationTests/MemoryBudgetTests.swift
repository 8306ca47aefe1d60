import Environment
import Synchronization
import Testing

/// Who may hold what, and who gives way.
@Suite struct MemoryBudgetTests {
    /// A clock that a test sets.
    private final class HandClock: TimeSource {
        private let seconds = Mutex<UInt64>(100)
        func monotonicNanoseconds() -> UInt64 { seconds.withLock { $0 } * 1_000_000_000 }
        func wallSeconds() -> Int64 { 0 }
        func sleep(nanoseconds: UInt64) async throws {}
        func go(_ by: UInt64) { seconds.withLock { $0 += by } }
        func back(_ by: UInt64) { seconds.withLock { $0 -= by } }
    }

    /// What a connection was told by what others did.
    private final class Told: Sendable {
        private let list = Mutex<[MemoryBudget.Standing]>([])
        var all: [MemoryBudget.Standing] { list.withLock { $0 } }
        func add(_ standing: MemoryBudget.Standing) { list.withLock { $0.append(standing) } }
    }

    private let megabyte = 1 << 20
    private let clock = HandClock()

    private func budget(_ megabytes: Int = 8) -> MemoryBudget { MemoryBudget(limit: megabytes * megabyte, time: clock) }

    private func join(_ budget: MemoryBudget) -> (MemoryBudget.Share, Told) {
        let told = Told()
        return (budget.share { told.add($0) }, told)
    }

    @Test func uptoThreeQuartersNobodyIsCrowded() {
        let budget = budget()
        let (one, _) = join(budget)
        #expect(one.hold(6 * megabyte, owedByPeer: 0) == .free)
        #expect(budget.used == 6 * megabyte)
    }

    @Test func aboveItWhoHoldsMoreThanItsShareIsCrowdedAndThenRelieved() {
        let budget = budget()
        let (large, toldLarge) = join(budget)
        let (small, toldSmall) = join(budget)
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .free)
        #expect(small.hold(megabyte, owedByPeer: 0) == .free)
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .crowded)
        // Of two, each may have half; what is above is crowded, the other is not.
        #expect(toldLarge.all == [] && toldSmall.all == [])
        #expect(small.hold(0, owedByPeer: 0) == .free)
        #expect(toldLarge.all == [.free])
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .free)
    }

    @Test func aConnectionThatGoesRelievesTheOthers() {
        let budget = budget()
        let (large, told) = join(budget)
        let (other, _) = join(budget)
        _ = other.hold(2 * megabyte, owedByPeer: 0)
        #expect(large.hold(5 * megabyte, owedByPeer: 0) == .crowded)
        other.giveUp()
        other.giveUp()
        #expect(told.all == [.free] && budget.used == 5 * megabyte)
        #expect(other.hold(megabyte, owedByPeer: 0) == .evicted && budget.used == 5 * megabyte)
    }

    @Test func aShareThatNobodyHoldsIsGivenUp() {
        let budget = budget()
        do {
            let (share, _) = join(budget)
            _ = share.hold(megabyte, owedByPeer: 0)
        }
        #expect(budget.used == 0)
    }

    @Test func whoOwesTheMostForTheLongestGivesWay() {
        let budget = budget()
        let (old, toldOld) = join(budget)
        let (large, toldLarge) = join(budget)
        let (last, toldLast) = join(budget)
        _ = old.hold(2 * megabyte, owedByPeer: 2 * megabyte)
        clock.go(10)
        _ = large.hold(5 * megabyte, owedByPeer: 5 * megabyte)
        clock.go(1)
        // 2 MiB for 11 s weigh more than 5 MiB for one.
        #expect(last.hold(2 * megabyte, owedByPeer: 2 * megabyte) != .evicted)
        #expect(toldOld.all == [.evicted] && !toldLarge.all.contains(.evicted) && !toldLast.all.contains(.evicted))
        #expect(budget.used == 7 * megabyte)
        #expect(old.hold(megabyte, owedByPeer: 0) == .evicted && budget.used == 7 * megabyte)
    }

    @Test func aPeerThatEndsWhatItBeganStartsAnew() {
        let budget = budget()
        let (steady, toldSteady) = join(budget)
        let (stuck, toldStuck) = join(budget)
        _ = steady.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        clock.go(60)
        _ = steady.hold(0, owedByPeer: 0)
        _ = steady.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        clock.go(1)
        _ = stuck.hold(megabyte, owedByPeer: megabyte)
        clock.go(30)
        _ = steady.hold(0, owedByPeer: 0)
        _ = steady.hold(8 * megabyte, owedByPeer: 8 * megabyte)
        #expect(toldStuck.all == [.evicted] && !toldSteady.all.contains(.evicted))
    }

    @Test func whoseWorkIsOursIsNotEvicted() {
        let budget = budget()
        let (one, told) = join(budget)
        #expect(one.hold(9 * megabyte, owedByPeer: 0) == .crowded)
        #expect(told.all == [])
    }

    @Test func theOneThatAsksMayBeTheOneThatGoes() {
        let budget = budget()
        let (one, told) = join(budget)
        #expect(one.hold(9 * megabyte, owedByPeer: 9 * megabyte) == .evicted)
        #expect(budget.used == 0 && told.all == [.evicted])
    }

    @Test func aClockThatAnotherThreadReadLaterWeighsNothing() {
        let budget = budget()
        let (stuck, toldStuck) = join(budget)
        let (fresh, toldFresh) = join(budget)
        let (last, _) = join(budget)
        _ = stuck.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        clock.go(20)
        _ = fresh.hold(3 * megabyte, owedByPeer: 3 * megabyte)
        // This thread had looked before `fresh` did, and gets the lock after it.
        clock.back(1)
        _ = last.hold(2 * megabyte, owedByPeer: 0)
        #expect(toldStuck.all == [.evicted] && toldFresh.all == [])
    }

    @Test func aThousandConnectionsStayWithinTheBudget() {
        let budget = budget(64)
        var shares: [MemoryBudget.Share] = []
        for index in 0..<1_000 {
            let (share, _) = join(budget)
            shares.append(share)
            _ = share.hold(1 << (10 + index % 12), owedByPeer: 1 << (10 + index % 12))
            clock.go(1)
            #expect(budget.used <= budget.limit)
        }
        for share in shares { share.giveUp() }
        #expect(budget.used == 0)
    }
}
