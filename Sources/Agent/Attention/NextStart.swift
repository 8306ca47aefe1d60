import AgentConfiguration
import Encodings
import Environment
import Synchronization

/// Whether the agent would start if it were started now: a file that has gone since is noticed while somebody looks, not after a power cut.
final class NextStart: Sendable {
    /// `next_start_interval`: seconds for which what was seen holds; a look reads the configuration and each file that it names.
    private static let interval = 5
    /// `next_start_problems`: those that are told; `nightjar check` tells all.
    private static let named = 3

    private struct Look {
        var problems: [String] = []
        var at: UInt64?
    }

    private let environment: Environment
    private let load = Mutex<(@Sendable () throws -> AgentSettings)?>(nil)
    private let look = Mutex(Look())

    init(environment: Environment) { self.environment = environment }

    /// - Parameter load: reads the configuration as a start does. Without it, the one in force is taken to be the next one's.
    func reads(_ load: @escaping @Sendable () throws -> AgentSettings) { self.load.withLock { $0 = load } }

    /// The configuration was loaded: what was seen before counts no more.
    func forget() { look.withLock { $0 = Look() } }

    /// What would stop it, in the order of the configuration; empty if nothing would.
    func problems(_ inForce: AgentSettings) -> [String] {
        let now = environment.time.monotonicNanoseconds()
        if let known = look.withLock({ look in look.at.map { now - $0 < UInt64(Self.interval) * 1_000_000_000 } == true ? look.problems : nil }) { return known }
        let found = self.found(inForce)
        look.withLock { $0 = Look(problems: found, at: now) }
        return found
    }

    private func found(_ inForce: AgentSettings) -> [String] {
        do {
            let settings = try load.withLock { $0 }?() ?? inForce
            return ConfigurationCheck.obstacles(settings, environment).map(\.description)
        } catch let error as ConfigurationProblems {
            return error.problems.map(\.description)
        } catch { return ["\(error)"] }
    }

    /// Nil if it would start.
    func attention(_ inForce: AgentSettings) -> Attention? {
        let problems = problems(inForce)
        guard !problems.isEmpty else { return nil }
        let rest = problems.count - Self.named
        let text = problems.prefix(Self.named).joined(separator: "; ") + (rest > 0 ? "; and \(Plural.count(rest, "problem")) more" : "")
        return Attention(
            .nextStartFails, "next start", "the agent runs, and would not start again: \(text)",
            remedy: "mend it before the agent or the machine is restarted; nightjar check says when all is well")
    }
}
