#if DEBUG
import Environment
import SimulationSupport
import Testing

/// Shows that the simulation finds bugs: each fault is planted, and some seed has to notice it.
@Suite(.serialized) struct PlantedFaultTests {
    /// Seeds that are known to find each fault, so that a normal test run need not search.
    static let found: [PlantedFault: UInt64] = [
        .acknowledgedBeforeCommit: 2, .settledBeforeStored: 2, .checkpointTooFar: 2, .lostWakeUp: 1, .echo: 11, .forgottenHeldDocument: 2,
        .missingBlobs: 1, .forgottenSuccessor: 1, .passedFailingFilter: 10, .staleMark: 11, .overtakingPurge: 1, .unansweredWrite: 2,
        .twoUnderWay: 51, .hopedForPull: 11, .countedTwice: 2, .copiedReply: 1, .blobBeforeItsBytes: 4, .forgottenParent: 61, .idleWhileOwed: 1,
        .keptShare: 1,
    ]

    @Test func everyFaultHasAKnownSeed() {
        #expect(Set(Self.found.keys) == Set(PlantedFault.allCases), "each fault needs a known seed; Tests/run --simulate-planted finds one for a new fault")
    }

    /// A change to the engine changes the run of a seed: where the known one no longer notices the fault, one of these may.
    private static let others: ClosedRange<UInt64> = 1...60

    @Test(arguments: PlantedFault.allCases) func knownSeedFinds(_ fault: PlantedFault) async throws {
        let known = try #require(Self.found[fault])
        for seed in [known] + Self.others where try await notices(fault, seed) { return }
        Issue.record("neither seed \(known) nor any of the first \(Self.others.count) notices \(fault) any more; Tests/run --simulate-planted finds others")
    }

    /// Whether it is the fault that is noticed, and not something that the same run has without it.
    private func notices(_ fault: PlantedFault, _ seed: UInt64) async throws -> Bool {
        var plan = SimulationPlan(seed: seed, planted: fault)
        guard try await simulate(plan).failure != nil else { return false }
        plan.planted = nil
        return try await simulate(plan).failure == nil
    }

    /// On demand: the first seed that finds each fault.
    @Test(.enabled(if: Wish.text("PLANTED") != nil), arguments: PlantedFault.allCases.filter { Wish.fault == nil || Wish.fault == $0 })
    func isFoundWithin2000Seeds(_ fault: PlantedFault) async throws {
        let result = try await simulate(1..<2_001, stopsAtFirst: true) { SimulationPlan(seed: $0, planted: fault) }
        let failure = result.failures.first
        print("\(fault.rawValue): \(failure.map { "seed \($0.plan.seed): \($0.violation)" } ?? "not found")")
        #expect(failure != nil, "no seed notices \(fault)")
    }
}
#endif
