import Environment
import Synchronization
import Testing

@testable import Replication

/// How much each connection may hold, and which one is dropped first.
@Suite struct MemoryBudgetTests {
    /// A clock that a test sets.
    final class HandClock: TimeSource {
        private let seconds = Mutex<UInt64>(100)
        func monotonicNanoseconds() -> UInt64 { seconds.withLock { $0 } * 1_000_000_000 }
        func wallSeconds() -> Int64 { 0 }
        func sleep(nanoseconds: UInt64) async throws {}
        func go(_ by: UInt64) { seconds.withLock { $0 += by } }
        func back(_ by: UInt64) { seconds.withLock { $0 -= by } }
    }

    /// What a connection is told because of what others do.
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
        return (budget.register { told.add($0) }, told)
    }

    @Test func upToThreeQuartersNobodyIsCrowded() {
        let budget = budget()
        let (one, _) = join(budget)
        #expect(one.hold(6 * megabyte, owedByPeer: 0) == .free)
        #expect(budget.used == 6 * megabyte)
    }

    @Test func aboveThatAConnectionWithMoreThanItsShareIsCrowdedAndThenRelieved() {
        let budget = budget()
        let (large, toldLarge) = join(budget)
        let (small, toldSmall) = join(budget)
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .free)
        #expect(small.hold(megabyte, owedByPeer: 0) == .free)
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .crowded)
        // With two connections, each may have half: the one above that is crowded, and the other is not.
        #expect(toldLarge.all == [] && toldSmall.all == [])
        #expect(small.hold(0, owedByPeer: 0) == .free)
        #expect(toldLarge.all == [.free])
        #expect(large.hold(6 * megabyte, owedByPeer: 0) == .free)
    }

    @Test func memoryIsShortWhenLittleIsLeftWhoeverHoldsIt() {
        let budget = budget()
        let (one, _) = join(budget)
        _ = one.hold(7 * megabyte, owedByPeer: 0)
        #expect(!budget.isShort && budget.fits(megabyte) && !budget.fits(megabyte + 1))
        let (other, _) = join(budget)
        #expect(other.hold(1, owedByPeer: 0) == .free && budget.isShort)
        one.giveUp()
        #expect(!budget.isShort)
    }

    @Test func aConnectionThatEndsRelievesTheOthers() {
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

    @Test func aShareWithoutAnOwnerIsGivenBack() {
        let budget = budget()
        do {
            let (share, _) = join(budget)
            _ = share.hold(megabyte, owedByPeer: 0)
        }
        #expect(budget.used == 0)
    }

    @Test func whatAConnectionLeavesBehindCountsUntilItIsReleased() {
        let memory = MemoryBudget(limit: 1_000_000)
        for isEvicted in [false, true] {
            var share: MemoryBudget.Share? = memory.register { _ in }
            let standing = share?.hold(isEvicted ? 2_000_000 : 500_000, owedByPeer: isEvicted ? 2_000_000 : 0)
            #expect(standing == (isEvicted ? .evicted : .free))
            share?.end(leaving: 200_000)
            #expect(memory.used == 200_000)
            share = nil
            #expect(memory.used == 0)
        }
    }

    @Test func aPeerThatTakesItPieceByPieceStaysEvenIfAsMuchIsHeldForIt() {
        let budget = budget()
        let (reader, toldReader) = join(budget)
        let (idle, toldIdle) = join(budget)
        let (last, _) = join(budget)
        _ = reader.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        _ = idle.hold(3 * megabyte, owedByPeer: 3 * megabyte)
        for _ in 0..<10 {
            clock.go(2)
            reader.pay(2 * megabyte)
        }
        #expect(budget.used == 7 * megabyte)
        #expect(last.hold(3 * megabyte, owedByPeer: 0) != .evicted)
        #expect(toldIdle.all.contains(.evicted) && !toldReader.all.contains(.evicted))
    }

    @Test func theConnectionThatOwesTheMostForTheLongestIsEvicted() {
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
        // What it holds stays in memory until it has ended.
        #expect(budget.used == 9 * megabyte && budget.isUsedUp)
        #expect(old.hold(megabyte, owedByPeer: 0) == .evicted)
        old.giveUp()
        #expect(budget.used == 7 * megabyte && !budget.isUsedUp)
    }

    /// Otherwise a crowd of idle peers would keep everybody else from transferring anything.
    @Test func quietConnectionsThatUseUpTheBudgetMakeRoomForOneThatIsActive() {
        let budget = budget()
        let quiet = (0..<9).map { _ in join(budget) }
        for (share, _) in quiet.prefix(8) {
            #expect(share.hold(megabyte, owedByPeer: 0, isQuiet: true) == .free || budget.used > 6 * megabyte)
            clock.go(1)
        }
        let (active, toldActive) = join(budget)
        #expect(active.hold(megabyte / 2, owedByPeer: 4 << 10) != .evicted)
        // The one that has been quiet for the longest.
        #expect(quiet[0].1.all.contains(.evicted) && quiet[1...].allSatisfy { !$0.1.all.contains(.evicted) } && !toldActive.all.contains(.evicted))
        #expect(quiet[0].0.hold(0, owedByPeer: 0) == .evicted)
        quiet[0].0.giveUp()
        // One of them has something to do, and another holds more.
        _ = quiet[1].0.hold(megabyte, owedByPeer: 0)
        clock.go(1)
        _ = quiet[8].0.hold(megabyte * 3 / 2, owedByPeer: 0, isQuiet: true)
        #expect(quiet[8].1.all.contains(.evicted) && quiet[1..<8].allSatisfy { !$0.1.all.contains(.evicted) } && !toldActive.all.contains(.evicted))
    }

    /// It holds less than the quiet ones, and would go on doing so for ever.
    @Test func aDebtorWithoutProgressGoesBeforeAQuietConnection() {
        let budget = budget()
        let quiet = (0..<7).map { _ in join(budget) }
        for (share, _) in quiet { _ = share.hold(megabyte, owedByPeer: 0, isQuiet: true) }
        let (stuck, toldStuck) = join(budget)
        _ = stuck.hold(megabyte, owedByPeer: 4 << 10)
        clock.go(20)
        let (active, toldActive) = join(budget)
        _ = active.hold(megabyte / 2, owedByPeer: 4 << 10)
        #expect(toldStuck.all.contains(.evicted) && !toldActive.all.contains(.evicted) && quiet.allSatisfy { !$0.1.all.contains(.evicted) })
    }

    /// Peers that are idle do not pay for those that make the agent hold much.
    @Test(arguments: [true, false]) func quietConnectionsStayWhileOthersUseUpTheBudget(_ owesIt: Bool) {
        let budget = budget()
        let quiet = (0..<3).map { _ in join(budget) }
        for (share, _) in quiet { _ = share.hold(megabyte, owedByPeer: 0, isQuiet: true) }
        clock.go(60)
        let (busy, toldBusy) = join(budget)
        _ = busy.hold(6 * megabyte, owedByPeer: owesIt ? 6 * megabyte : 0)
        #expect(toldBusy.all.contains(.evicted) == owesIt && quiet.allSatisfy { !$0.1.all.contains(.evicted) })
    }

    @Test func aPeerThatFinishesWhatItBeganStartsAfresh() {
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

    @Test func aSlowReaderIsPreferredToOneThatDoesNothing() {
        let budget = budget()
        let (slow, toldSlow) = join(budget)
        let (stuck, toldStuck) = join(budget)
        _ = slow.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        clock.go(60)
        _ = stuck.hold(megabyte, owedByPeer: megabyte)
        // Each second, a tenth of a megabyte is read and as much is added.
        for _ in 0..<60 {
            clock.go(1)
            _ = slow.hold(4 * megabyte - 100 << 10, owedByPeer: 4 * megabyte - 100 << 10)
            _ = slow.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        }
        let (last, _) = join(budget)
        _ = last.hold(7 * megabyte / 2, owedByPeer: 0)
        #expect(toldStuck.all == [.evicted] && !toldSlow.all.contains(.evicted))
    }

    @Test func aConnectionThatWaitsForOurWorkIsNotEvicted() {
        let budget = budget()
        let (one, told) = join(budget)
        #expect(one.hold(9 * megabyte, owedByPeer: 0) == .crowded)
        #expect(told.all == [])
    }

    @Test func theConnectionThatAsksForMemoryMayBeTheOneThatIsEvicted() {
        let budget = budget()
        let (one, told) = join(budget)
        #expect(one.hold(9 * megabyte, owedByPeer: 9 * megabyte) == .evicted)
        #expect(budget.used == 9 * megabyte && told.all == [.evicted])
        one.giveUp()
        #expect(budget.used == 0)
    }

    @Test func aClockReadLaterByAnotherThreadDoesNoHarm() {
        let budget = budget()
        let (stuck, toldStuck) = join(budget)
        let (fresh, toldFresh) = join(budget)
        let (last, _) = join(budget)
        _ = stuck.hold(4 * megabyte, owedByPeer: 4 * megabyte)
        clock.go(20)
        _ = fresh.hold(3 * megabyte, owedByPeer: 3 * megabyte)
        // This thread has read the clock before `fresh` did, and gets the lock after it.
        clock.back(1)
        _ = last.hold(2 * megabyte, owedByPeer: 0)
        #expect(toldStuck.all == [.evicted] && !toldFresh.all.contains(.evicted))
    }

    @Test func aThousandConnectionsStayWithinTheBudget() {
        let budget = budget(64)
        var shares: [(share: MemoryBudget.Share, told: Told)] = []
        var most = 0
        for index in 0..<1_000 {
            let (share, told) = join(budget)
            shares.append((share, told))
            _ = share.hold(1 << (10 + index % 12), owedByPeer: 1 << (10 + index % 12))
            clock.go(1)
            // Nobody may take more while evicted connections are still there.
            most = max(most, budget.used)
            for each in shares where budget.isUsedUp && each.told.all.contains(.evicted) { each.share.giveUp() }
            #expect(budget.used <= budget.limit)
        }
        // The limit may be exceeded by what the last one took that was let in.
        #expect(most > budget.limit && most <= budget.limit + 2 << 20)
        for each in shares { each.share.giveUp() }
        #expect(budget.used == 0)
    }

    @Test func aConnectionThatOwesNextToNothingIsNotEvicted() {
        let budget = budget()
        let (idle, toldIdle) = join(budget)
        _ = idle.hold(2 * megabyte, owedByPeer: 256)
        clock.go(1_000_000)
        let (guilty, _) = join(budget)
        #expect(guilty.hold(7 * megabyte, owedByPeer: 7 * megabyte) == .evicted)
        guilty.giveUp()
        #expect(toldIdle.all == [] && budget.used == 2 * megabyte)
    }

    @Test func whatCanBeSparedIsReleasedBeforeAnybodyIsEvicted() {
        let budget = budget()
        let asked = Mutex(0)
        let idle = budget.register(trim: { asked.withLock { $0 += 1 } }) { _ in }
        let (busy, told) = join(budget)
        _ = idle.hold(4 * megabyte, owedByPeer: 0, spare: 3 * megabyte)
        _ = busy.hold(5 * megabyte, owedByPeer: 5 * megabyte)
        _ = busy.hold(5 * megabyte, owedByPeer: 5 * megabyte)
        #expect(asked.withLock { $0 } == 1 && !told.all.contains(.evicted))
        #expect(idle.hold(megabyte, owedByPeer: 0) == .free && budget.used == 6 * megabyte)
        // It has nothing left to spare, and so a connection is evicted.
        #expect(busy.hold(8 * megabyte, owedByPeer: 8 * megabyte) == .evicted)
    }

    @Test func workWaitsForOtherWorkAndIsRefusedIfWaitingWouldNotHelp() async {
        let budget = budget()
        var first = await budget.reserve(3 * megabyte)
        #expect(first != nil && budget.used == 3 * megabyte)
        // This is more than the half that is available for work.
        #expect(await budget.reserve(5 * megabyte) == nil)
        let others = [3, 4].map { count in Task { [megabyte] in await budget.reserve(count * megabyte) != nil } }
        first = nil
        #expect(first == nil)
        for other in others { #expect(await other.value) }
        #expect(budget.highestReserved <= 4 * megabyte)
        let (peer, _) = join(budget)
        _ = peer.hold(7 * megabyte, owedByPeer: 0)
        #expect(await budget.reserve(3 * megabyte) == nil)
        peer.giveUp()
        #expect(await budget.reserve(4 * megabyte) != nil)
    }

    /// A peer may keep it for hours.
    @Test(.timeLimit(.minutes(5))) func workDoesNotWaitForTheEndOfWhatIsLent() async {
        let budget = budget()
        var lent = budget.lend(megabyte)
        #expect(lent != nil && budget.used == megabyte && budget.reserved == 0)
        let (peer, _) = join(budget)
        _ = peer.hold(6 * megabyte, owedByPeer: 0)
        // Nothing is under way whose end could make room.
        let refused = await budget.reserve(2 * megabyte)
        #expect(refused == nil)
        peer.giveUp()
        let all = await budget.reserve(budget.workLimit)
        #expect(all != nil && budget.used == budget.workLimit + megabyte)
        lent = nil
        #expect(lent == nil && budget.used == budget.workLimit)
        withExtendedLifetime(all) {}
    }

    /// Otherwise callers that keep taking small parts would leave none for those that need a lot at once.
    @Test func pagesTakeNoMemoryWhileWorkWaits() async {
        let budget = MemoryBudget(limit: 64 * megabyte)
        #expect(SessionAccounts.pageReservation(budget).reservation != nil)
        var first = await budget.reserve(budget.workLimit)
        #expect(first != nil && SessionAccounts.pageReservation(budget).reservation != nil)
        let second = Task { await budget.reserve(budget.workLimit) != nil }
        while !budget.isAwaited { await Task.yield() }
        let page = SessionAccounts.pageReservation(budget)
        #expect(page.reservation == nil && page.bytes > 0)
        first = nil
        #expect(first == nil)
        #expect(await second.value)
    }
}
