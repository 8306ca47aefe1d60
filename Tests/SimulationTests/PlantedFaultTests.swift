#if DEBUG
import Environment
import SimulationSupport
import Testing

/// Shows that the simulation finds bugs: each is planted, and some seed has to notice.
@Suite(.serialized) struct PlantedFaultTests {
    /// Seeds that were seen to find the fault, so that a normal test run need not search.
    static let found: [PlantedFault: UInt64] = [
        .acknowledgedBeforeCommit: 2, .settledBeforeStored: 8, .checkpointTooFar: 2, .lostWakeUp: 1, .echo: 11, .forgottenHeldDocument: 2,
        .missingBlobs: 1, .forgottenSuccessor: 6, .passedFailingFilter: 20, .staleMark: 11, .overtakingPurge: 1, .unansweredWrite: 2,
        .twoUnderWay: 32, .hopedForPull: 11, .countedTwice: 2, .copiedReply: 1, .blobBeforeItsBytes: 4, .forgottenParent: 2, .idleWhileOwed: 1,
        .keptShare: 1,
    ]

    @Test func everyFaultHasAKnownSeed() {
        #expect(Set(Self.found.keys) == Set(PlantedFault.allCases), "Tests/run --simulate-planted finds a seed for a new fault")
    }

    @Test(arguments: PlantedFault.allCases) func knownSeedFinds(_ fault: PlantedFault) async throws {
        let seed = try #require(Self.found[fault])
        var plan = SimulationPlan(seed: seed, planted: fault)
        let result = try await simulate(plan)
        #expect(result.failure != nil, "seed \(seed) does not notice \(fault) any more; Tests/run --simulate-planted finds others")
        // It is the fault that was noticed, and nothing that the same run has without it.
        plan.planted = nil
        let sound = try await simulate(plan)
        if let failure = sound.failure { Issue.record("without \(fault), in the plan that shows it: \(failure)") }
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
