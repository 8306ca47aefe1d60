import Environment
import Glibc
import SimulationSupport
import Testing

/// What the environment of the test run asks for; `Tests/run` sets it.
enum Wish {
    static func text(_ name: String) -> String? { getenv("NIGHTJAR_SIMULATION_\(name)").map { String(cString: $0) } }
    static func number(_ name: String) -> UInt64? { text(name).flatMap(UInt64.init) }
    static var topology: SimulationPlan.Topology? { text("TOPOLOGY").flatMap(SimulationPlan.Topology.init) }
    /// Some or all machines have version vectors.
    static var versions: Bool { text("VERSIONS") != nil }
    /// Disks corrupt what they store.
    static var damage: Bool { text("DAMAGE") != nil }
    /// Limits are so small that they are reached all the time.
    static var tightness: Bool { text("TIGHT") != nil }
    static var fault: PlantedFault? { text("FAULT").flatMap(PlantedFault.init) }
}

/// Runs seeds on two threads at once.
/// - Parameter stopsAtFirst: no further seeds are started after a failure.
func simulate(
    _ seeds: Range<UInt64>, stopsAtFirst: Bool = false, _ plan: @escaping @Sendable (UInt64) -> SimulationPlan
) async throws -> (failures: [SimulationFailure], steps: Int) {
    try await withThrowingTaskGroup(of: (SimulationFailure?, Int).self) { group in
        var next = seeds.lowerBound
        var failures: [SimulationFailure] = []
        var steps = 0
        func add() {
            guard next < seeds.upperBound, !(stopsAtFirst && !failures.isEmpty) else { return }
            let plan = plan(next)
            next += 1
            group.addTask {
                let result = try await simulate(plan)
                return (result.failure, result.steps)
            }
        }
        add()
        add()
        while let (failure, count) = try await group.next() {
            steps += count
            if let failure { failures.append(failure) }
            add()
        }
        return (failures.sorted { $0.plan.seed < $1.plan.seed }, steps)
    }
}

/// Runs many seeds, or one with everything that happens in it logged.
@Suite(.serialized) struct SeedTests {
    @Test(.enabled(if: Wish.number("SEED") == nil)) func seeds() async throws {
        let first = Wish.number("FIRST") ?? 1
        let count = Wish.number("COUNT") ?? 200
        let clock = ContinuousClock()
        let start = clock.now
        let result = try await simulate(first..<first + count) { SimulationPlan(seed: $0, topology: Wish.topology, planted: Wish.fault, withVersions: Wish.versions, withDamage: Wish.damage, withTightLimits: Wish.tightness) }
        for failure in result.failures {
            Issue.record("\(failure)")
        }
        let seconds = Double((clock.now - start).components.attoseconds) * 1e-18 + Double((clock.now - start).components.seconds)
        print("\(count) seeds, \(result.steps) steps in \(Int(seconds * 1_000)) ms: \(Int(Double(count) / seconds)) seeds a second")
    }

    /// Fleets in which all or some of the peers name revisions by versions, and the rest by ids.
    @Test(.enabled(if: Wish.number("SEED") == nil && Wish.number("COUNT") == nil)) func seedsWithVersions() async throws {
        let result = try await simulate(1..<81) { SimulationPlan(seed: $0, withVersions: true) }
        for failure in result.failures { Issue.record("\(failure)") }
    }

    /// Beyond the first 200, these have found faults with: a deletion during a push of the same document, a disk that fails while channels are
    /// assigned or a file is looked up, a chain whose middle decides conflicts, replicators that are started while they are reconfigured, revisions
    /// that a slow filter holds until they are dropped, the deletion of a branch that does not win, the end of a branch that the peer has left, a row
    /// that the peer itself, or others, had overtaken by more saves than a history keeps, a document that came back on one of two tombstones, two
    /// peers that owed each other replies, a revision that the peer had by another way, a first page that became zeros, a blob that was requested while
    /// the listener's filter failed, a conflict whose winner the remote had lost, a document of a remote's that lost its note on a conflict, two
    /// tombstones of which each side kept its own, a document that was moved although its writer went on from it, a revision that was asked for again
    /// each time the pull filter failed on it, and two hubs that do not replicate with each other. One only found that a check did not know what a
    /// listener owes (1509886).
    @Test(.enabled(if: Wish.number("SEED") == nil), arguments: [232, 392, 470, 648, 708, 979, 1_147, 1_213, 1_280, 2_146, 2_678, 3_154, 3_423, 3_887, 4_369, 4_428, 4_518, 5_450, 8_966, 9_362, 10_555, 500_132, 501_405, 520_194, 520_556, 520_991, 802_235, 802_846, 900_135, 1_310_237, 1_507_175, 1_509_886, 8_101_037, 8_300_248, 8_301_186] as [UInt64]) func seedsThatFoundFaultsPass(_ seed: UInt64) async throws {
        let result = try await simulate(SimulationPlan(seed: seed))
        if let failure = result.failure { Issue.record("\(failure)") }
    }

    /// With versions, these have found faults with a blob whose folder could not be synced, with a deletion that won here while a live
    /// revision won at the peer, with one revision that two machines made under two names, with a tombstone that a remote reported after a lesser one,
    /// with a pull filter that kept out the peer's name for a revision, with an acknowledgement that a held revision had replaced,
    /// with a held revision that the remote had lost since, with all that may arrive at one moment in a small memory, with a revision of a branch
    /// that was left by the time it went out, and with a document that came back on another tombstone than the one that the remote read.
    @Test(.enabled(if: Wish.number("SEED") == nil), arguments: [3_493, 3_923, 600_236, 930_751, 931_017, 944_541, 1_101_226, 1_203_129, 1_400_672, 1_600_158] as [UInt64]) func seedsWithVersionsThatFoundFaultsPass(_ seed: UInt64) async throws {
        let result = try await simulate(SimulationPlan(seed: seed, withVersions: true))
        if let failure = result.failure { Issue.record("\(failure)") }
    }

    /// With disks that corrupt what they store, this one found that notes about a peer's damaged database were believed of the empty one
    /// that replaced it.
    @Test(.enabled(if: Wish.number("SEED") == nil), arguments: [161] as [UInt64]) func seedsWithDamageThatFoundFaultsPass(_ seed: UInt64) async throws {
        let result = try await simulate(SimulationPlan(seed: seed, withDamage: true))
        if let failure = result.failure { Issue.record("\(failure)") }
    }

    /// The same few documents are created and deleted on all machines at once. With versions, these have found what a neighbour decided by revision ids, two
    /// deletions that never came to rest, and a deletion of which half of the machines were not told.
    @Test(.enabled(if: Wish.number("SEED") == nil && Wish.number("COUNT") == nil), arguments: [false, true]) func churn(_ withVersions: Bool) async throws {
        let found: [UInt64] = withVersions ? [5_010_037, 9_200_056, 9_400_037, 9_400_054] : [5_010_037]
        for seeds in [1..<3] + found.map({ $0..<$0 + 1 }) {
            let result = try await simulate(seeds) { SimulationPlan(seed: $0, topology: .lasso, withVersions: withVersions) }
            for failure in result.failures { Issue.record("\(failure)") }
        }
    }

    /// Documents that are edited at both hubs pass from each to the other. Those beyond the first have found a peer that has nothing but the ends of two
    /// deletions, and a deletion that followed what it had lost to.
    @Test(.enabled(if: Wish.number("SEED") == nil && Wish.number("COUNT") == nil), arguments: [false, true]) func unlinkedHubs(_ withVersions: Bool) async throws {
        for seeds in [1..<11, 58..<59, 1_092..<1_093] as [Range<UInt64>] {
            let result = try await simulate(seeds) { SimulationPlan(seed: $0, topology: .unlinkedHubs, withVersions: withVersions) }
            for failure in result.failures { Issue.record("\(failure)") }
        }
    }

    @Test(.enabled(if: Wish.number("SEED") != nil)) func oneSeed() async throws {
        let seed = try #require(Wish.number("SEED"))
        let plan = Wish.text("FIGURE") == nil
            ? SimulationPlan(seed: seed, topology: Wish.topology, planted: Wish.fault, withVersions: Wish.versions, withDamage: Wish.damage, withTightLimits: Wish.tightness)
            : Self.figurePlan(seed)
        let result = try await simulate(plan) { print($0) }
        print("trace \(String(result.trace, radix: 16)), \(result.steps) steps")
        if let failure = result.failure { Issue.record("\(failure)") }
    }

    /// A plan of about 1,000 steps of the scheduler.
    private static func figurePlan(_ seed: UInt64) -> SimulationPlan {
        var plan = SimulationPlan(seed: seed, topology: .pair)
        (plan.rounds, plan.edits, plan.hasBursts) = (1, 14, false)
        return plan
    }

    /// Measures how many runs a second of the pair topology, with 1,000 events each, one core can do.
    @Test(.enabled(if: Wish.text("FIGURE") != nil && Wish.number("SEED") == nil)) func pairFigure() async throws {
        let clock = ContinuousClock()
        let (start, startOfWork) = (clock.now, Self.processorSeconds)
        var steps = 0
        for seed in 1...200 as ClosedRange<UInt64> {
            let result = try await simulate(Self.figurePlan(seed))
            // Without FIGURE, the command in the failure would replay another plan.
            if let failure = result.failure { Issue.record("the figure's plan (NIGHTJAR_SIMULATION_FIGURE=1 before the command): \(failure)") }
            steps += result.steps
        }
        let elapsed = (clock.now - start).components
        let seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) * 1e-18
        let work = Self.processorSeconds - startOfWork
        print(
            "200 runs of the pair in \(Int(seconds * 1_000)) ms, \(steps / 200) events each: \(Int(200 / seconds)) runs a second, "
                + "and \(Int(200 / work)) in a second of processor time")
    }

    /// Processor time of this process so far, which does not depend on what else the machine does.
    private static var processorSeconds: Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
    }
}
