import DocumentStore
import Environment
import Glibc
import SimulationSupport
import Testing

/// Runs a simulation on a thread of its own, since a run has to stay on one.
func simulate(_ plan: SimulationPlan, log: (@Sendable (String) -> Void)? = nil) async throws -> (trace: UInt64, steps: Int, failure: SimulationFailure?) {
    try await ThreadWorkers().run(name: "simulation", stackBytes: 8 << 20) {
        let simulation = Simulation(plan, log: log)
        do throws(SimulationFailure) {
            try simulation.run()
            return (simulation.scheduler.trace, simulation.scheduler.steps, nil)
        } catch {
            return (simulation.scheduler.trace, simulation.scheduler.steps, error)
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

    /// Filters, resolvers and sync functions fail both at once and after a while.
    @Test func policiesOfEveryKindFailAndTimeOut() async throws {
        let plans = (1...500 as ClosedRange<UInt64>).map { SimulationPlan(seed: $0) }
        let chosen = plans.filter { $0.changesSyncFunctions || $0.hasPolicies && $0.unites && $0.resolversTimeOut }
        let expected: Set<String> = ["plugin_error", "plugin_timeout"]
        let names = ["push", "pull", "out", "in", "resolver", "sync"]
        var found: [String: Set<String>] = [:]
        for plan in chosen where names.contains(where: { found[$0] != expected }) {
            let kinds = try await ThreadWorkers().run(name: "simulation", stackBytes: 8 << 20) { () -> [String: Set<String>] in
                let simulation = Simulation(plan)
                // Whether the run is correct is what SeedTests check.
                do throws(SimulationFailure) { try simulation.run() } catch {}
                return simulation.failuresOfPolicies
            }
            found.merge(kinds) { $0.union($1) }
        }
        for name in names { #expect(found[name] == expected, "\(name)") }
    }

    /// Traces do not depend on the process. This needs dictionaries that hash without a seed per process, for which `Tests/run` provides.
    @Test(.enabled(if: getenv("SWIFT_DETERMINISTIC_HASHING") != nil))
    func sameSeedGivesTheSameRunInAnotherProcess() async throws {
        let file = try #require(Wish.text("TRACES"), "run this through Tests/run, which names the file that passes the traces of one run to the next")
        var lines: [String] = []
        for topology in SimulationPlan.Topology.allCases where topology != .star {
            let seed: UInt64 = 1
            let result = try await simulate(SimulationPlan(seed: seed, topology: topology))
            lines.append("\(topology.rawValue) \(seed) \(String(result.trace, radix: 16)) \(result.steps)")
        }
        let text = lines.joined(separator: "\n") + "\n"
        if let before = read(file) {
            #expect(before == text)
        } else {
            write(text, to: file)
        }
    }

    private func read(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    private func write(_ text: String, to path: String) {
        guard let file = fopen(path, "w") else { return }
        fputs(text, file)
        fclose(file)
    }
}
