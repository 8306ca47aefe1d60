import Agent
import Environment
import PluginHost

/// Runs the tests of plugins before publishing: gateways run them too, and would refuse what fails, far away from anybody who can fix it.
enum FleetTests {
    /// - Throws: ``AgentError`` naming what fails.
    static func run(_ files: [String]) async throws {
        var failures: [String] = []
        for file in files where file.hasSuffix(".lua") {
            let parts = file.split(separator: "/", omittingEmptySubsequences: false)
            let folder = parts.count > 1 ? parts.dropLast().joined(separator: "/") : "."
            let name = String((parts.last ?? "").dropLast(4))
            let suites = try await PluginTests.run(folder: folder.isEmpty ? "/" : folder, plugins: [name], environment: .system)
            for suite in suites where !suite.isPassed {
                failures += suite.problem.map { ["plugin \(name): \($0)"] } ?? []
                failures += suite.outcomes.compactMap { outcome in outcome.problem.map { "plugin \(name), test \(outcome.name): \($0)" } }
            }
        }
        guard failures.isEmpty else {
            throw AgentError(.invalid, "nothing is published, since tests fail (--no-tests leaves them out):\n" + failures.joined(separator: "\n"))
        }
    }
}
