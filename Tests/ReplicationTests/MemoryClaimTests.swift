import Environment
import Synchronization
import Testing

/// The memory of answers to our own requests: who may grow, who waits, and who is refused.
@Suite(.timeLimit(.minutes(1))) struct MemoryClaimTests {
    /// Whoever sleeps makes time pass, and lets others run.
    private final class PassingTime: TimeSource {
        private let now = Mutex<UInt64>(1_000_000_000_000)
        func monotonicNanoseconds() -> UInt64 { now.withLock { $0 } }
        func wallSeconds() -> Int64 { 0 }

        func sleep(nanoseconds: UInt64) async throws {
            try Task.checkCancellation()
            now.withLock { $0 += nanoseconds }
            await Task.yield()
        }
    }

    /// What happened, in order.
    private final class Notes: Sendable {
        private let notes = Mutex<[String]>([])
        func append(_ note: String) { notes.withLock { $0.append(note) } }
        var all: [String] { notes.withLock { $0 } }
    }

    private let megabyte = 1 << 20
    /// - Parameter time: one that passes at once only where a test is about waiting: several that wait would use up each other's patience.
    private func budget(_ megabytes: Int, _ time: any TimeSource = SystemTime()) -> MemoryBudget { MemoryBudget(limit: megabytes << 20, time: time) }

    /// How a claim's growth ended; nil if it was granted.
    private func refusal(_ claim: MemoryBudget.Claim, to bytes: Int) async -> MemoryBudget.ClaimRefusal? {
        do { try await claim.grow(to: bytes) } catch { return error as? MemoryBudget.ClaimRefusal }
        return nil
    }

    @Test func aSmallAnswerClaimsNothingAndALargeOneReleasesAll() async throws {
        let budget = budget(8)
        do {
            let (small, large) = (budget.claimant().claim(), budget.claimant().claim())
            try await small.grow(to: 64 << 10)
            #expect(budget.used == 0 && budget.claimed == 0)
            try await large.grow(to: megabyte)
            #expect(budget.claimed >= megabyte && budget.claimed == budget.used)
            large.complete(at: megabyte / 2)
            #expect(budget.claimed == megabyte / 2)
            withExtendedLifetime((small, large)) {}
        }
        #expect(budget.claimed == 0 && budget.used == 0)
    }

    @Test func largeAnswersFollowEachOther() async throws {
        let budget = budget(64)
        let (first, second) = (budget.claimant().claim(), budget.claimant().claim())
        try await first.grow(to: 20 * megabyte)
        let waiting = Task { await refusal(second, to: 20 * megabyte) }
        // It waits until the first one is complete, and what it holds leaves room for another.
        await Task.yield()
        #expect(budget.claimed < 24 * megabyte)
        first.complete(at: megabyte)
        #expect(await waiting.value == nil)
        #expect(budget.claimed >= 21 * megabyte && budget.claimed < 24 * megabyte)
        withExtendedLifetime(second) {}
    }

    @Test("however many answers arrive at the same time, their memory stays within the budget, and each has its turn")
    func crowd() async throws {
        let budget = budget(64)
        let answers = (0..<10).map { _ in
            Task { () -> Bool in
                let claim = budget.claimant().claim()
                for piece in 1...60 {
                    guard await refusal(claim, to: piece * (320 << 10)) == nil else { return false }
                    await Task.yield()
                }
                claim.complete(at: 0)
                return true
            }
        }
        for answer in answers { #expect(await answer.value) }
        #expect(budget.takeHighest() <= 40 * megabyte && budget.claimed == 0)
    }

    @Test func anAnswerThatDripsGivesWayToThoseThatWaitForIt() async throws {
        let budget = budget(64, PassingTime())
        let (slow, next) = (budget.claimant().claim(), budget.claimant().claim())
        try await slow.grow(to: 20 * megabyte)
        let waiting = Task { await refusal(next, to: 20 * megabyte) }
        var refused: MemoryBudget.ClaimRefusal?
        for more in 1..<100_000 where refused == nil {
            refused = await refusal(slow, to: 20 * megabyte + more)
            await Task.yield()
        }
        #expect(refused == .tooSlow && slow.refusal == .tooSlow)
        // Its memory counts until the request is aborted.
        slow.complete(at: 0)
        #expect(await waiting.value == nil)
        #expect(await refusal(slow, to: 30 * megabyte) == .tooSlow)
        withExtendedLifetime(next) {}
    }

    @Test func answersThatHaveStoppedArrivingAreGivenUpTogetherForOneThatWaits() async throws {
        let budget = budget(64, PassingTime())
        let stalled = (0..<8).map { _ in budget.claimant().claim() }
        for claim in stalled {
            try await claim.grow(to: 7 * megabyte / 4)
            claim.whenRevoked { [weak claim] in claim?.complete(at: 0) }
        }
        let next = budget.claimant().claim()
        #expect(await refusal(next, to: 6 * megabyte) == nil)
        #expect(stalled.count { $0.refusal == .tooSlow } == 8)
        withExtendedLifetime((stalled, next)) {}
    }

    @Test func noAnswerIsReadIfOthersHoldAllOfTheBudgetAndTheOnlyOneIs() async throws {
        let budget = budget(64, PassingTime())
        let held = budget.claimant().claim()
        try await held.grow(to: 50 * megabyte)
        held.complete(at: 50 * megabyte)
        let claim = budget.claimant().claim()
        #expect(await refusal(claim, to: 20 * megabyte) == .noMemory)
        held.complete(at: 0)
        // What peers hold is theirs to release: the answer is read beside them, and they are evicted if it comes to that.
        let peer = budget.register { _ in }
        _ = peer.hold(50 * megabyte, owedByPeer: 0)
        let next = budget.claimant().claim()
        #expect(await refusal(next, to: 20 * megabyte) == nil)
        withExtendedLifetime((held, claim, next, peer)) {}
    }

    @Test func thoseThatWaitGiveWayToTheOldestWhichTheirMemoryIsWantedFor() async throws {
        let budget = budget(64, PassingTime())
        let oldest = budget.claimant().claim()
        try await oldest.grow(to: megabyte)
        let others = (0..<5).map { _ in budget.claimant().claim() }
        for other in others { try await other.grow(to: 3 * megabyte - (512 << 10)) }
        let waiting = others.map { other in Task { await refusal(other, to: 20 * megabyte) } }
        // There is room for it only if most of them release what they hold.
        let peer = budget.register { _ in }
        _ = peer.hold(20 * megabyte, owedByPeer: 0)
        let growing = Task { await refusal(oldest, to: 40 * megabyte) }
        var refused = 0
        for (task, other) in zip(waiting, others).reversed() {
            if budget.claimed > 40 * megabyte { break }
            guard await task.value == .noMemory else { break }
            refused += 1
            other.complete(at: 0)
        }
        #expect(await growing.value == nil && refused >= 4, "\(refused)")
        oldest.complete(at: 0)
        for task in waiting { task.cancel() }
        withExtendedLifetime((oldest, others, peer)) {}
    }

    @Test("peers take turns, however many requests each of them has to answer")
    func turns() async throws {
        let budget = budget(64)
        let (greedy, modest) = (budget.claimant(), budget.claimant())
        var first: MemoryBudget.Claim? = greedy.claim()
        try await first?.grow(to: 20 * megabyte)
        let order = Notes()
        func growth(_ claim: MemoryBudget.Claim, _ name: String) -> Task<Void, Never> {
            Task {
                let refusal = await refusal(claim, to: 20 * megabyte)
                order.append(refusal.map { "\(name): \($0)" } ?? name)
                claim.complete(at: 0)
            }
        }
        // The greedy peer's other requests are older than the modest one's.
        let others = (0..<3).map { _ in growth(greedy.claim(), "greedy") }
        while budget.waitingClaims < 3 { await Task.yield() }
        let last = growth(modest.claim(), "modest")
        while budget.waitingClaims < 4 { await Task.yield() }
        first = nil
        for task in others + [last] { await task.value }
        #expect(order.all == ["modest", "greedy", "greedy", "greedy"])
    }

    @Test func whatIsKeptForSomethingThatDripsIsGivenUpForOneThatWaits() async throws {
        let budget = budget(64, PassingTime())
        let kept = budget.claimant().claim()
        try await kept.grow(to: 50 * megabyte)
        kept.complete(at: 50 * megabyte)
        kept.whenRevoked { [weak kept] in kept?.complete(at: 0) }
        let next = budget.claimant().claim()
        // While nothing is kept for others, its own work goes on.
        #expect(await refusal(next, to: 20 * megabyte) == .noMemory && kept.refusal == nil)
        kept.keep()
        let after = budget.claimant().claim()
        #expect(await refusal(after, to: 20 * megabyte) == nil)
        #expect(kept.refusal == .tooSlow)
        withExtendedLifetime((kept, next, after)) {}
    }

    @Test func whatIsKeptForSomethingThatArrivesIsNotGivenUp() async throws {
        let budget = budget(64, PassingTime())
        let kept = budget.claimant().claim()
        try await kept.grow(to: 50 * megabyte)
        kept.complete(at: 50 * megabyte)
        kept.keep()
        let next = budget.claimant().claim()
        let waiting = Task { await refusal(next, to: 20 * megabyte) }
        let arriving = Task { while !Task.isCancelled { kept.advance(by: megabyte); await Task.yield() } }
        #expect(await waiting.value == .noMemory && kept.refusal == nil)
        arriving.cancel()
        await arriving.value
        withExtendedLifetime((kept, next)) {}
    }

    @Test func aRequestThatIsGivenUpWaitsNoLonger() async throws {
        let budget = budget(64)
        let (first, second) = (budget.claimant().claim(), budget.claimant().claim())
        try await first.grow(to: 40 * megabyte)
        let waiting = Task { try await second.grow(to: 40 * megabyte) }
        await Task.yield()
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        withExtendedLifetime(first) {}
    }

    @Test func feedsDivideTheirPartOfTheBudget() {
        let budget = budget(64)
        let first = budget.feed()
        #expect(first.share == 8 * megabyte)
        var others = (0..<7).map { _ in budget.feed() }
        #expect(first.share == megabyte && others.allSatisfy { $0.share == megabyte })
        others = []
        #expect(first.share == 8 * megabyte)
    }
}
