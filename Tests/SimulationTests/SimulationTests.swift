import DocumentStore
import Environment
import SimulationSupport
import Testing

/// Runs a simulation on a thread of its own, since a run has to stay on one.
func simulate(_ plan: SimulationPlan, log: (@Sendable (String) -> Void)? = nil) async throws -> (trace: UInt64, steps: Int, stuck: Int, failure: SimulationFailure?) {
    try await ThreadWorkers().run(name: "simulation", stackBytes: 8 << 20) {
        let simulation = Simulation(plan, log: log)
        do throws(SimulationFailure) {
            try simulation.run()
            return (simulation.scheduler.trace, simulation.scheduler.steps, simulation.record.stuck.count, nil)
        } catch {
            return (simulation.scheduler.trace, simulation.scheduler.steps, simulation.record.stuck.count, error)
        }
    }
}

@Suite struct SimulationTests {
    @Test func sameSeedGivesTheSameRun() async throws {
        for seed in [1, 2, 3] as [UInt64] {
            let first = try await simulate(SimulationPlan(seed: seed))
            let second = try await simulate(SimulationPlan(seed: seed))
            #expect(first.trace == second.trace && first.steps == second.steps)
        }
    }

    @Test func pairConverges() async throws {
        for seed in 0..<5 as Range<UInt64> {
            let result = try await simulate(SimulationPlan(seed: seed, topology: .pair))
            if let failure = result.failure { Issue.record("\(failure)") }
        }
    }
}
