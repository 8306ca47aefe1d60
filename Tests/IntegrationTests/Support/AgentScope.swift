import TestSupport
import Testing

/// One agent for all tests of a suite: started before the first, stopped after the last.
struct AgentScope: SuiteTrait, TestScoping {
    @TaskLocal static var current: AgentProcess?

    let configuration: String
    /// Files beside the configuration.
    let files: [String: String]

    func provideScope(for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        for (name, contents) in files { try folder.write(name, contents) }
        let agent = try await AgentProcess.start(configuration, in: folder)
        try await Self.$current.withValue(agent) { try await function() }
        // That it ends in order after everything the tests did is part of what they check.
        let end = try await agent.stop()
        #expect(end.status == 0, "\(end)")
    }
}

extension Trait where Self == AgentScope {
    static func agent(_ configuration: String, files: [String: String] = [:]) -> AgentScope {
        AgentScope(configuration: configuration, files: files)
    }
}

/// The suite's agent.
func sharedAgent() throws -> AgentProcess {
    guard let agent = AgentScope.current else { throw SupportError("the suite has no trait .agent") }
    return agent
}
