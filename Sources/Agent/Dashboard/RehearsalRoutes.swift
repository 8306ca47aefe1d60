import AgentConfiguration
import Documents
import HTTPServer
import PluginHost
import Synchronization

/// Runs the source of a resolver over decided conflicts, without touching any data, and returns what it would have decided.
package typealias Rehearse = @Sendable (_ source: [UInt8], _ conflicts: [ConflictAccess], _ settings: AgentSettings) async throws -> JSONValue

/// `POST /api/rehearsal`: tries a candidate resolver on the conflicts in the history; one rehearsal at a time.
final class RehearsalRoutes: Sendable {
    /// `max_candidate_bytes`: size of the candidate's source; HTTP 413.
    private static let candidateLimit = NamedLimit("max_candidate_bytes", 1 << 20)

    private let agent: Agent
    private let rehearse: Rehearse
    private let isBusy = Mutex(false)

    init(agent: Agent, rehearse: @escaping Rehearse) {
        self.agent = agent
        self.rehearse = rehearse
    }

    var routes: [Route] {
        [
            .post("api/rehearsal", bodyLimit: Self.candidateLimit) { [self] request in
                let accesses = try ConflictRoutes(agent: agent).accesses(try request.value(.db))
                let source = Array(try await request.body.collect().readableBytesView)
                let isFirst = isBusy.withLock { isBusy in
                    defer { isBusy = true }
                    return !isBusy
                }
                guard isFirst else { throw AgentError(.conflict, "a rehearsal is under way; wait until it is over") }
                defer { isBusy.withLock { $0 = false } }
                do { return Answer.json(try await rehearse(source, accesses, agent.settings)) } catch let error as PluginError {
                    throw AgentError(error)
                }
            }
        ]
    }
}
