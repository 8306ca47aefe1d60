import Agent
import AgentConfiguration
import ArgumentParser

/// Where an agent's configuration and data are.
struct ConfigurationOptions: ParsableArguments, Sendable {
    @Option(name: .long, help: ArgumentHelp("The configuration file.", valueName: "file"), completion: .file())
    var config: String?

    @Option(name: .long, help: ArgumentHelp("The data folder; overrides the configuration's.", valueName: "folder"), completion: .directory)
    var data: String?

    @Option(name: .long, help: ArgumentHelp("The plugins folder; overrides the configuration's.", valueName: "folder"), completion: .directory)
    var plugins: String?

    /// - Throws: ``ConfigurationProblems``.
    func read() throws -> AgentSettings {
        guard let config else { return AgentSettings.embeddedDefault(data: data, plugins: plugins) }
        return try AgentSettings.load(path: config, overrides: .init(data: data, plugins: plugins))
    }

    /// The same for a command that needs no secret; see ``AgentSettings/readWithoutSecrets(_:_:)``.
    func readWithoutSecrets() throws -> AgentSettings {
        guard let config else { return try read() }
        return try AgentSettings.readWithoutSecrets(config, .init(data: data, plugins: plugins))
    }

    /// The readable part of the configuration, and what is wrong with it. Includes the fleet's fragments if nothing is wrong.
    ///
    /// - Parameter environment: used to expand `${NAME}`; nil for this command's own.
    func examine(environment: [String: String]? = nil) -> (settings: AgentSettings?, problems: ConfigurationProblems?) {
        guard let config else { return (AgentSettings.embeddedDefault(data: data, plugins: plugins), nil) }
        let (settings, problems) = AgentSettings.examine(path: config, overrides: .init(data: data, plugins: plugins), environment: environment)
        guard problems == nil, let settings else { return (settings, problems) }
        // Unreadable fleet documents are reported when their plugins are examined.
        return ((try? FleetStore.withFleet(settings)) ?? settings, nil)
    }

    /// Just enough of the configuration to find a running agent.
    func place() throws -> AgentSettings {
        guard let config else { return try read() }
        return try AgentSettings.place(config, .init(data: data, plugins: plugins))
    }

    /// Reads it, or prints what is wrong and exits with status 78.
    func load() throws -> AgentSettings {
        do { return try read() } catch { throw Failure.exit(for: error) }
    }
}

extension AgentSettings {
    /// Just enough of a configuration to find a running agent.
    ///
    /// - Throws: what is wrong with it, and how to do without it, because the agent may be running anyway.
    static func place(_ config: String, _ overrides: Overrides) throws -> AgentSettings {
        do throws(ConfigurationProblems) { return try location(path: config, overrides: overrides) } catch { throw error.withWayAround(config) }
    }
}

extension ConfigurationProblems {
    /// What still works while a file cannot be read.
    static func wayAround(_ config: String?) -> String {
        let folder = config.flatMap { AgentSettings.likelyDataFolder(path: $0) }
        return "to reach the running agent, use --data \(folder ?? "FOLDER") instead of --config"
    }

    /// The same, with how to do without the file.
    func withWayAround(_ config: String) -> ConfigurationProblems {
        var problems = self
        problems.problems.append(ConfigurationProblem(file: "", line: 0, column: 0, message: Self.wayAround(config)))
        return problems
    }
}
