import Agent
import AgentConfiguration
import Environment
import PluginHost

/// Checks documents before publishing as a gateway would, independently of any gateway's configuration: gateways would refuse them far away from
/// anybody who can fix them.
enum FleetChecks {
    /// - Throws: ``AgentError`` listing everything that would be refused.
    static func run(_ contents: [(item: FleetItem, content: FleetDocument.Content)], proof: any PluginProof = NoPluginProof()) async throws {
        var problems: [String] = []
        for (item, content) in contents {
            switch content {
            case .plugin(let main, let tests):
                let plugin = SuppliedPlugin(name: item.name, main: main, tests: tests)
                if let problem = try await plugin.problem(limits: PluginHostLimits(), proof: proof, environment: .system) { problems.append("\(problem)") }
            case .config(let text):
                if let refusal = ConfigurationFragment(name: item.name, version: 1, text: text).refusal { problems.append("\(refusal)") }
            case .withdrawn: break
            }
        }
        guard problems.isEmpty else {
            throw AgentError(
                .invalid,
                "nothing is published, since every gateway would refuse it (--no-checks: for gateways of a later version than this):\n"
                    + problems.joined(separator: "\n"))
        }
    }
}
