import Environment
import Synchronization
import Testing

/// What the connections of one address hold and owe counts together: it decides who is slowed down, and who is dropped first.
@Suite struct MemoryOriginTests {
    /// A connection, and whether it was told to end because of what others do.
    private final class Peer: Sendable {
        private final class Told: Sendable {
            let isEvicted = Mutex(false)
        }

        private let told: Told
        let share: MemoryBudget.Share
        var isEvicted: Bool { told.isEvicted.withLock { $0 } }

        init(_ budget: MemoryBudget, _ origin: String?) {
            let told = Told()
            self.told = told
            share = budget.register(origin: origin) { [told] standing in if standing == .evicted { told.isEvicted.withLock { $0 = true } } }
        }

        /// Holds this much, and owes all of it or nothing.
        @discardableResult func hold(_ bytes: Int, isOwed: Bool = true) -> MemoryBudget.Standing { share.hold(bytes, owedByPeer: isOwed ? bytes : 0) }
    }

    private let megabyte = 1 << 20
    private let clock = MemoryBudgetTests.HandClock()
    private let attacker = "192.0.2.1"
    private let reader = "198.51.100.7"
    private let other = "203.0.113.9"

    private func budget(_ megabytes: Int = 64) -> MemoryBudget { MemoryBudget(limit: megabytes * megabyte, time: clock) }

    private func peers(_ count: Int, of origin: String?, _ budget: MemoryBudget) -> [Peer] { (0..<count).map { _ in Peer(budget, origin) } }

    /// What an address holds, and what it owes.
    private func sums(_ address: String, _ budget: MemoryBudget) -> [Int] {
        let sums = budget.sums(of: address)
        return [sums.bytes, sums.owed]
    }

    // MARK: - Who is dropped

    /// Each second, all of them take a tenth of what they owe.
    @Test func aReaderStaysThoughItOwesMoreThanAnyOfTheManySlowReadersOfAnotherAddress() {
        let budget = budget()
        let (honest, crowd) = (Peer(budget, reader), peers(40, of: attacker, budget))
        honest.hold(3 * megabyte)
        for peer in crowd { peer.hold(3 * megabyte / 2) }
        for _ in 0..<20 {
            clock.go(1)
            honest.share.pay(3 * megabyte / 10)
            for peer in crowd { peer.share.pay(3 * megabyte / 20) }
        }
        let next = Peer(budget, other)
        next.hold(4 * megabyte)
        // Three megabytes too many: two of its connections.
        #expect(crowd.count { $0.isEvicted } == 2 && !honest.isEvicted && !next.isEvicted)
        for peer in crowd where peer.isEvicted { peer.share.giveUp() }
        #expect(budget.used == budget.limit && budget.sums(of: attacker).owed == 57 * megabyte)
    }

    /// Its connections take turns, so that none of them is there for long.
    @Test func anAddressThatReplacesItsDroppedConnectionsLosesTheNewOnes() {
        let budget = budget()
        let honest = Peer(budget, reader)
        honest.hold(3 * megabyte)
        var crowd = peers(40, of: attacker, budget)
        for peer in crowd { peer.hold(3 * megabyte / 2) }
        for _ in 0..<30 {
            clock.go(1)
            honest.share.pay(3 * megabyte)
            let new = Peer(budget, attacker)
            new.hold(3 * megabyte / 2)
            for peer in crowd where peer.isEvicted { peer.share.giveUp() }
            crowd = crowd.filter { !$0.isEvicted } + [new]
        }
        #expect(!honest.isEvicted && budget.used <= budget.limit)
    }

    /// Its connections are replaced as fast as they are dropped, so that no debt of its own is ever old, while a reader's steady debt is.
    @Test func anAddressWhoseDebtsAreAllNewGoesBeforeAReaderThatOwesLessThanItsShare() {
        let budget = budget()
        let honest = Peer(budget, reader)
        honest.hold(3 * megabyte)
        clock.go(2)
        honest.share.pay(megabyte)
        var crowd = peers(40, of: attacker, budget)
        for peer in crowd { peer.hold(3 * megabyte / 2) }
        for _ in 0..<10 {
            let new = Peer(budget, attacker)
            new.hold(2 * megabyte)
            for peer in crowd + [new] where peer.isEvicted { peer.share.giveUp() }
            crowd = (crowd + [new]).filter { !$0.isEvicted }
        }
        #expect(!honest.isEvicted && budget.used <= budget.limit)
    }

    @Test func withinTheAddressTheOneThatOwesTheMostForTheLongestIsDropped() {
        let budget = budget(16)
        let (honest, crowd) = (Peer(budget, reader), peers(4, of: attacker, budget))
        crowd[2].hold(2 * megabyte)
        clock.go(10)
        honest.hold(3 * megabyte)
        for index in [0, 1, 3] { crowd[index].hold(3 * megabyte) }
        clock.go(1)
        Peer(budget, other).hold(3 * megabyte, isOwed: false)
        #expect(crowd.map(\.isEvicted) == [false, false, true, false] && !honest.isEvicted)
    }

    /// Together they weigh more than the one that goes.
    @Test func anAddressThatOwesNoMoreThanItsShareLosesNoConnectionBeforeOneThatWeighsMore() {
        let budget = budget(16)
        let (large, few) = (Peer(budget, reader), peers(3, of: attacker, budget))
        large.hold(5 * megabyte)
        for peer in few { peer.hold(2 * megabyte) }
        clock.go(1)
        Peer(budget, other).hold(6 * megabyte, isOwed: false)
        #expect(large.isEvicted && few.allSatisfy { !$0.isEvicted })
    }

    @Test func aSingleDebtorThatWeighsMoreThanAWholeAddressGoesFirst() {
        let budget = budget(16)
        let (stuck, crowd) = (Peer(budget, reader), peers(4, of: attacker, budget))
        stuck.hold(2 * megabyte)
        clock.go(60)
        for peer in crowd { peer.hold(3 * megabyte) }
        clock.go(1)
        Peer(budget, other).hold(3 * megabyte, isOwed: false)
        #expect(stuck.isEvicted && crowd.allSatisfy { !$0.isEvicted })
    }

    /// As without addresses: the heaviest connection, and of several the one that was there first.
    @Test(arguments: [[2, 2, 2], [2, 3, 1], [1, 2, 3]]) func ofTwoAddressesWithEqualDebtsTheHeaviestConnectionIsDropped(_ sizes: [Int]) {
        let budget = budget(12)
        let (one, two) = (peers(3, of: attacker, budget), peers(3, of: reader, budget))
        for (peer, size) in zip(one, [2, 2, 2]) { peer.hold(size * megabyte) }
        for (peer, size) in zip(two, sizes) { peer.hold(size * megabyte) }
        clock.go(1)
        Peer(budget, other).hold(megabyte, isOwed: false)
        let expected = sizes.firstIndex(of: 3).map { $0 + 3 } ?? 0
        #expect((one + two).enumerated().filter(\.element.isEvicted).map(\.offset) == [expected])
    }

    @Test(arguments: [nil, "192.0.2.1"] as [String?]) func aSingleAddressLosesTheSameConnectionsAsNone(_ origin: String?) {
        let budget = budget(8)
        let peers = peers(3, of: origin, budget)
        peers[0].hold(2 * megabyte)
        clock.go(10)
        peers[1].hold(5 * megabyte)
        clock.go(1)
        let last = peers[2].hold(2 * megabyte)
        #expect(peers.map(\.isEvicted) == [true, false, false] && last != .evicted)
        peers[0].share.giveUp()
        clock.go(2)
        peers[2].hold(4 * megabyte)
        #expect(peers.map(\.isEvicted) == [true, true, false])
    }

    @Test func connectionsWithoutAnAddressCountEachForItself() {
        let budget = budget(16)
        let (own, two) = (peers(3, of: nil, budget), peers(2, of: attacker, budget))
        for peer in own { peer.hold(3 * megabyte) }
        for peer in two { peer.hold(5 * megabyte / 2) }
        clock.go(1)
        // 5 of the 14 megabytes: more than a quarter of the budget, and no other has as much.
        Peer(budget, other).hold(3 * megabyte, isOwed: false)
        #expect(two.map(\.isEvicted) == [true, false] && own.allSatisfy { !$0.isEvicted })
    }

    /// What they hold is released soon, without anybody's doing.
    @Test(arguments: [false, true]) func nobodyElseIsDroppedWhileWhatDroppedConnectionsHoldOrLeaveBehindIsEnough(_ hasEnded: Bool) {
        let budget = budget(16)
        let (honest, large) = (Peer(budget, reader), Peer(budget, attacker))
        large.hold(17 * megabyte)
        #expect(large.isEvicted)
        if hasEnded { large.share.end(leaving: 17 * megabyte) }
        clock.go(2)
        let first = honest.hold(megabyte / 8)
        clock.go(2)
        let second = honest.hold(megabyte / 4)
        #expect(!honest.isEvicted && first != .evicted && second != .evicted && budget.isUsedUp)
        large.share.giveUp()
        #expect(budget.used == megabyte / 4)
        // It leaves nothing behind in the sums either.
        #expect(sums(attacker, budget) == [0, 0])
        let third = honest.hold(16 * megabyte)
        #expect(third != .evicted)
        let fourth = honest.hold(17 * megabyte)
        #expect(fourth == .evicted)
    }

    @Test func aReaderThatHasJustBegunStaysWhileAnAddressHoldsMoreThanItsShareThoughThatOwesNothing() {
        let budget = budget(16)
        let (honest, crowd) = (Peer(budget, reader), peers(32, of: attacker, budget))
        for (index, peer) in crowd.enumerated() { peer.hold(index == 20 ? megabyte : megabyte / 4, isOwed: false) }
        honest.hold(7 * megabyte + megabyte / 4)
        #expect(!honest.isEvicted && crowd.allSatisfy { !$0.isEvicted })
        // One that is idle goes before one for which work is in progress, though it holds less.
        _ = crowd[10].share.hold(megabyte / 4, owedByPeer: 0, isQuiet: true)
        honest.hold(15 * megabyte / 2)
        #expect(!honest.isEvicted && crowd.enumerated().filter(\.element.isEvicted).map(\.offset) == [10])
        honest.hold(8 * megabyte)
        #expect(!honest.isEvicted && crowd.enumerated().filter(\.element.isEvicted).map(\.offset) == [10, 20])
    }

    @Test(arguments: [0, 1] as [UInt64]) func aReaderGoesThatOwesForLongerOrHoldsMoreThanItsShare(_ seconds: UInt64) {
        let budget = budget(16)
        let (honest, crowd) = (Peer(budget, reader), peers(8, of: attacker, budget))
        // Half of the budget is its share.
        honest.hold(seconds == 0 ? 9 * megabyte : 7 * megabyte)
        clock.go(seconds)
        for peer in crowd { peer.hold(5 * megabyte / 4, isOwed: false) }
        #expect(honest.isEvicted && crowd.allSatisfy { !$0.isEvicted })
    }

    // MARK: - Room for others

    @Test func roomForAnAddressIsMadeByTheHeaviestConnectionOfOneAboveItsShareThatIsIdleOrOwesSomething() {
        let budget = budget()
        let (busy, quiet, stuck) = (Peer(budget, attacker), Peer(budget, attacker), Peer(budget, attacker))
        busy.hold(24 * megabyte, isOwed: false)
        _ = quiet.share.hold(16 * megabyte, owedByPeer: 0, isQuiet: true)
        stuck.hold(12 * megabyte)
        let (honest, own, next) = (Peer(budget, other), Peer(budget, nil), Peer(budget, reader))
        honest.hold(5 * megabyte)
        own.hold(5 * megabyte)
        next.hold(megabyte)
        budget.makeRoom(for: megabyte, of: reader)
        #expect([busy, quiet, stuck].allSatisfy { !$0.isEvicted })
        budget.makeRoom(for: 2 * megabyte, of: reader)
        #expect([busy, quiet, stuck].map(\.isEvicted) == [false, true, false])
        // What leaves is enough for more.
        budget.makeRoom(for: 17 * megabyte, of: reader)
        #expect([busy, quiet, stuck].map(\.isEvicted) == [false, true, false])
        budget.makeRoom(for: 18 * megabyte, of: reader)
        #expect([busy, quiet, stuck].map(\.isEvicted) == [false, true, true])
        budget.makeRoom(for: 60 * megabyte, of: reader)
        #expect([busy, honest, own, next].allSatisfy { !$0.isEvicted })
    }

    @Test func noRoomIsMadeForAnAddressByItsOwnConnections() {
        let budget = budget(16)
        let peers = peers(3, of: attacker, budget)
        for peer in peers { peer.hold(5 * megabyte) }
        budget.makeRoom(for: 2 * megabyte, of: attacker)
        #expect(peers.allSatisfy { !$0.isEvicted })
        budget.makeRoom(for: 2 * megabyte, of: reader)
        #expect(peers.map(\.isEvicted) == [true, false, false])
    }

    // MARK: - Who is slowed down

    @Test func anAddressAboveItsShareIsCrowdedAndOneBelowIsNot() {
        let budget = budget()
        let (honest, crowd) = (Peer(budget, reader), peers(46, of: attacker, budget))
        for peer in crowd { peer.hold(megabyte, isOwed: false) }
        let first = honest.hold(4 * megabyte, isOwed: false)
        let again = crowd[0].hold(megabyte, isOwed: false)
        #expect(first == .free && again == .crowded)
        // More than half of its share, which is half of the budget.
        for peer in crowd[20...] { peer.hold(megabyte / 2, isOwed: false) }
        let much = honest.hold(18 * megabyte, isOwed: false)
        #expect(budget.used > 48 * megabyte && much == .crowded)
        withExtendedLifetime(crowd) {}
    }

    @Test(arguments: [nil, "192.0.2.1"] as [String?]) func connectionsOfASingleAddressAreCrowdedAsThoseOfNone(_ origin: String?) {
        let budget = budget(8)
        let peers = peers(3, of: origin, budget)
        peers[0].hold(4 * megabyte, isOwed: false)
        peers[1].hold(3 * megabyte / 2, isOwed: false)
        let (small, large, middle) = (
            peers[2].hold(megabyte, isOwed: false), peers[0].hold(4 * megabyte, isOwed: false), peers[1].hold(3 * megabyte / 2, isOwed: false)
        )
        #expect(small == .free && large == .crowded && middle == .crowded)
    }

    /// Otherwise nobody would be slowed down, since no address holds half of the budget.
    @Test func whileWorkTakesMuchOfTheBudgetTheAddressWithTheMostIsCrowded() {
        let budget = budget()
        let room = budget.reserveNow(budget.workLimit)
        let (honest, crowd) = (Peer(budget, reader), peers(20, of: attacker, budget))
        for peer in crowd { peer.hold(9 * megabyte / 10, isOwed: false) }
        let (first, again) = (honest.hold(megabyte, isOwed: false), crowd[0].hold(9 * megabyte / 10, isOwed: false))
        #expect(room != nil && first == .free && again == .crowded)
        withExtendedLifetime((room, honest, crowd)) {}
    }

    // MARK: - Sums

    @Test func theSumsOfAnAddressAreThoseOfItsConnectionsAndReturnToZero() {
        let budget = budget(16)
        var peers = peers(4, of: attacker, budget) + peers(1, of: reader, budget) + peers(1, of: nil, budget)
        #expect(budget.origins == 0)
        peers[0].hold(3 * megabyte)
        peers[0].hold(2 * megabyte)
        peers[1].hold(megabyte, isOwed: false)
        peers[4].hold(1_000)
        peers[5].hold(megabyte)
        // Too little to count is not owed.
        #expect(budget.origins == 3)
        #expect(sums(attacker, budget) == [3 * megabyte, 2 * megabyte])
        #expect(sums(reader, budget) == [1_000, 0])
        peers[2].hold(13 * megabyte)
        // What is dropped counts no more, though it is there for a moment.
        #expect(peers[2].isEvicted)
        #expect(sums(attacker, budget) == [3 * megabyte, 2 * megabyte])
        peers[0].share.end(leaving: megabyte / 2)
        peers[2].share.end(leaving: megabyte)
        peers[1].hold(0)
        peers[4].share.giveUp()
        #expect(budget.origins == 2)
        #expect(sums(attacker, budget) == [3 * megabyte / 2, 0])
        peers = []
        #expect(budget.origins == 0 && budget.used == 0)
        #expect(sums(attacker, budget) == [0, 0] && sums(reader, budget) == [0, 0])
    }
}
