import Agent
import AgentConfiguration
import ArgumentParser

/// Where an agent's configuration and data are.
struct ConfigurationOptions: ParsableArguments, Sendable {
    @Option(name: .long, help: ArgumentHelp("The configuration file.", valueName: "file"))
    var config: String?

    @Option(name: .long, help: ArgumentHelp("The data folder; overrides the configuration's.", valueName: "folder"))
    var data: String?

    @Option(name: .long, help: ArgumentHelp("The plugins folder; overrides the configuration's.", valueName: "folder"))
    var plugins: String?

    /// - Throws: ``ConfigurationProblems``.
    func read() throws -> AgentSettings {
        guard let config else { return AgentSettings.embeddedDefault(data: data, plugins: plugins) }
        return try AgentSettings.load(path: config, overrides: .init(data: data, plugins: plugins))
    }

    /// What can be read of it, and what is wrong with it. With the fleet's fragments, if nothing is.
    ///
    /// - Parameter environment: what `${NAME}` looks up; nil: that of this command.
    func examine(environment: [String: String]? = nil) -> (settings: AgentSettings?, problems: ConfigurationProblems?) {
        guard let config else { return (AgentSettings.embeddedDefault(data: data, plugins: plugins), nil) }
        let (settings, problems) = AgentSettings.examine(path: config, overrides: .init(data: data, plugins: plugins), environment: environment)
        guard problems == nil, let settings else { return (settings, problems) }
        // What cannot be read of the fleet is named by whoever looks at its plugins.
        return ((try? FleetStore.withFleet(settings)) ?? settings, nil)
    }

    /// As much of it as finds a running agent.
    func place() throws -> AgentSettings {
        guard let config else { return try read() }
        return try AgentSettings.place(config, .init(data: data, plugins: plugins))
    }

    /// Reads it, or prints what is wrong and ends with exit status 78.
    func load() throws -> AgentSettings {
        do { return try read() } catch { throw Failure.exit(for: error) }
    }
}

extension AgentSettings {
    /// As much of a configuration as finds a running agent.
    ///
    /// - Throws: what is wrong with it, and how to do without it: the agent may run all the same.
    static func place(_ config: String, _ overrides: Overrides) throws -> AgentSettings {
        do throws(ConfigurationProblems) { return try location(path: config, overrides: overrides) } catch {
            var problems = error
            problems.problems.append(
                ConfigurationProblem(
                    file: "", line: 0, column: 0, message: "the running agent is reached with --data FOLDER in the place of --config"))
            throw problems
        }
    }
}
