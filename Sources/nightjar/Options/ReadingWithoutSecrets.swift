import AgentConfiguration

extension AgentSettings {
    /// Reads a configuration for a command that needs none of its secrets: what only the agent's environment has (a variable, a credential of
    /// its unit) may be missing here, is a warning on standard error, and leaves out the parts that use it.
    ///
    /// - Throws: ``ConfigurationProblems``: anything else that is wrong, or where the data and plugins are if that cannot be told.
    static func readWithoutSecrets(_ config: String, _ overrides: Overrides) throws -> AgentSettings {
        let (found, problems) = examine(path: config, overrides: overrides)
        let isTold = problems.map { $0.omitted == 0 && $0.problems.allSatisfy(\.isOfEnvironment) } ?? true
        guard let settings = found, isTold, settings.knowsDataFolder, settings.knowsPluginsFolder else {
            throw (problems ?? ConfigurationProblems([])).seenFromAShell
        }
        for problem in problems?.seenFromAShell.problems ?? [] { Output.errorLine("warning: \(problem)") }
        return settings
    }
}

extension ConfigurationProblems {
    /// The same for a command that reads the agent's configuration in an environment of its own, with how to look at it in the agent's.
    var seenFromAShell: ConfigurationProblems {
        var seen = self
        for index in seen.problems.indices where seen.problems[index].isOfEnvironment { seen.problems[index].message += Self.advice }
        return seen
    }

    private static let advice =
        "; this shell is not the agent's unit and has not its environment: nightjar reload makes the running agent check the file with its own, "
        + "and systemd-run --pipe with the unit's settings (-p LoadCredential=NAME:PATH, -p EnvironmentFile=FILE) runs a command with them"
}
