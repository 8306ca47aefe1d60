import AgentConfiguration
import Encodings
import Environment
import Synchronization

/// Whether the agent would start if it were started now: a missing file is noticed while somebody is watching, not after a power cut.
final class NextStart: Sendable {
    /// `next_start_interval`: seconds for which a successful check is reused; a check reads the configuration and every file that it names. A failed
    /// check is repeated whenever somebody asks.
    private static let interval = 5
    /// `next_start_problems`: how many problems are reported; `nightjar check` reports all.
    private static let named = 3

    private struct Look {
        var problems: [String] = []
        /// The configuration on disk equals the one in force.
        var isInForce = false
        var at: UInt64?
    }

    private let environment: Environment
    private let load = Mutex<(@Sendable () throws -> AgentSettings)?>(nil)
    private let look = Mutex(Look())

    init(environment: Environment) { self.environment = environment }

    /// - Parameter load: reads the configuration as a start does. Without it, the next start is assumed to use the one in force.
    func reads(_ load: @escaping @Sendable () throws -> AgentSettings) { self.load.withLock { $0 = load } }

    /// The configuration was loaded: earlier results no longer count.
    func forget() { look.withLock { $0 = Look() } }

    /// What would prevent a start, in the order of the configuration; empty if nothing would.
    func problems(_ inForce: AgentSettings) -> [String] { current(inForce) { $0.problems.isEmpty }.problems }

    /// Whether a start would read the configuration that is in force: the file contains nothing that was refused.
    func matchesRunningConfiguration(_ inForce: AgentSettings) -> Bool { current(inForce) { $0.isInForce }.isInForce }

    private func current(_ inForce: AgentSettings, holds: (Look) -> Bool) -> Look {
        let now = environment.time.monotonicNanoseconds()
        let known = look.withLock { $0 }
        if let at = known.at, holds(known), now - at < UInt64(Self.interval) * 1_000_000_000 { return known }
        var found = self.found(inForce)
        found.at = now
        look.withLock { $0 = found }
        return found
    }

    private func found(_ inForce: AgentSettings) -> Look {
        do {
            let read = try load.withLock { $0 }?()
            let settings = read ?? inForce
            var problems = ConfigurationCheck.obstacles(settings, environment) + [ConfigurationCheck.unusableData(settings)].compactMap { $0 }
            problems += ConfigurationCheck.dataObstacles(settings, environment) + ConfigurationCheck.socketObstacles(settings).certain
            problems += [settings.admin.flatMap { AdminPort.obstacle($0, besides: inForce) }].compactMap { $0 }
            return Look(problems: problems.map(\.description), isInForce: read?.difference(from: inForce).isEmpty ?? false)
        } catch let error as ConfigurationProblems {
            return Look(problems: error.problems.map(\.description))
        } catch { return Look(problems: ["\(error)"]) }
    }

    /// Nil if it would start.
    func attention(_ inForce: AgentSettings) -> Attention? {
        let problems = problems(inForce)
        guard !problems.isEmpty else { return nil }
        let rest = problems.count - Self.named
        let text = problems.prefix(Self.named).joined(separator: "; ") + (rest > 0 ? "; and \(Plural.count(rest, "problem")) more" : "")
        return Attention(
            .nextStartFails, "next start", "the agent runs, but would not start again: \(text)",
            remedy: "fix it before the agent or the machine is restarted; nightjar doctor says when all is well")
    }
}
