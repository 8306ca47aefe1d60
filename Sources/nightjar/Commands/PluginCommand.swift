import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import NIOPosix
import PluginHost

struct PluginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plugin", abstract: "Creates, tests, tries out, lists and controls plugins.",
        subcommands: [
            List.self, PluginNewCommand.self, Check.self, PluginTestCommand.self, PluginRunCommand.self, PluginReloadCommand.self,
            PluginRollbackCommand.self, PluginRetryCommand.self, PluginSignCommand.self,
        ])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the plugins of a running agent, or of the plugins folder if none runs.",
            discussion: "For one that runs as a shadow, also how often it was compared with the plugin that serves, and the last documents on "
                + "which it differed.")

        @OptionGroup var location: ConfigurationOptions
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                // A folder named explicitly takes precedence.
                if location.plugins == nil,
                    let agent = try AgentClient.find(try location.place(), group: MultiThreadedEventLoopGroup.singleton)
                {
                    let plugins = try await agent.request("GET", "/api/plugins")
                    if json { Output.json(plugins) } else { Output.write(1, String(StatusText.plugins(plugins.asArray ?? [], showsDifferences: true).dropFirst())) }
                    return
                }
                let check = try await PluginCommand.check(try location.readWithoutSecrets())
                if json {
                    Output.json(.array(check.plugins.map(\.json) + check.problems.map(PluginCommand.json)))
                } else {
                    if !check.plugins.isEmpty || check.problems.isEmpty { PluginCommand.show(check.plugins) }
                    for problem in check.problems { Output.errorLine(TextTable.printable(problem.description)) }
                }
            }
        }
    }

    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check", abstract: "Loads every plugin of the folder in a sandbox and runs its tests. Exit status 1 if one has an error.",
            discussion: """
                It reports what a running agent would refuse. The command "nightjar check" also checks how the configuration uses them. With plugins of the \
                folder, or files anywhere (a/path/NAME.lua, with NAME.test.lua and lib beside it), it looks at those alone.
                """)

        @OptionGroup var location: ConfigurationOptions
        @Argument(help: ArgumentHelp("Names of plugins, or files; absent: the whole folder.", valueName: "plugin"), completion: .file()) var chosen: [String] = []
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let check = try await PluginCommand.check(try location.readWithoutSecrets(), only: chosen)
                if json {
                    Output.json(
                        JSONOutput.object([
                            "ok": .bool(check.problems.isEmpty), "plugins": .array(check.plugins.map(\.json)),
                            "problems": .array(check.problems.map { .string($0.description) }),
                        ]))
                } else {
                    PluginCommand.show(check.plugins)
                    for problem in check.problems { Output.errorLine(TextTable.printable(problem.description)) }
                }
                if !check.problems.isEmpty { throw ExitCode(Failure.failed) }
            }
        }
    }

    /// The folder that a configuration or `--plugins` names.
    static func folder(_ settings: AgentSettings) throws -> String {
        if let folder = settings.plugins?.value { return folder }
        throw AgentError(.notFound, "there is no plugins folder: name it with --plugins, or its configuration with --config")
    }

    static func check(_ settings: AgentSettings) async throws -> PluginCheck {
        try await PluginCheck.run(
            folder: try folder(settings), configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits),
            proof: ProofByTests(), seal: settings.pluginSeal, environment: .system)
    }

    /// Several plugins by name or file; all of the folder if none are named.
    static func check(_ settings: AgentSettings, only chosen: [String]) async throws -> (plugins: [PluginListing], problems: [PluginProblem]) {
        if chosen.isEmpty {
            let all = try await check(settings)
            return (all.plugins, all.problems)
        }
        var (plugins, problems): ([PluginListing], [PluginProblem]) = ([], [])
        for each in chosen {
            let place = try PluginPlace(each, settings)
            let found = try await PluginCheck.run(
                folder: place.folder, only: place.name, configurationFolder: settings.folder, limits: PluginHostLimits(settings.pluginLimits), proof: ProofByTests(),
                seal: place.isElsewhere ? nil : settings.pluginSeal, environment: .system)
            guard !found.plugins.isEmpty || !found.problems.isEmpty else {
                throw AgentError(.notFound, "there is no plugin \(place.name) in \(place.folder): expected \(place.name).lua or \(place.name)/init.lua there")
            }
            plugins += found.plugins
            problems += found.problems
        }
        return (plugins, problems)
    }

    static func show(_ plugins: [PluginListing]) {
        var table = TextTable(["PLUGIN", "VERSION", "HOOKS", "DESCRIPTION"])
        for plugin in plugins { table.add([plugin.name, plugin.version, plugin.hooks.joined(separator: ", "), plugin.description ?? ""]) }
        if table.isEmpty { Output.line("no plugins") } else { Output.write(1, table.text) }
    }

    static func json(_ problem: PluginProblem) -> JSONValue {
        JSONOutput.object([
            "name": JSONOutput.text(problem.plugin), "version": .null, "state": .string("refused"), "hooks": .array([]),
            "refused": JSONOutput.object(["version": .null, "error": .string(problem.description)]),
        ])
    }
}

extension PluginListing {
    var json: JSONValue {
        JSONOutput.object([
            "name": .string(name), "file": .string(file), "version": .string(version), "state": .string("active"),
            "description": JSONOutput.text(description), "hooks": .array(hooks.map { .string($0) }), "refused": .null,
        ])
    }
}
