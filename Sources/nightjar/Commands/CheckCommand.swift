import Agent
import AgentConfiguration
import ArgumentParser
import Documents

struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Reads the configuration and plugins as run would, but starts nothing.",
        discussion: "Every problem is printed with file, line and column. Exit status 78 if there is one. A \"warning:\" marks what is valid but probably not "
            + "intended, a certificate that is not valid today, or, for a broken plugin, the version that run would use instead: the one that was last in force.")

    @OptionGroup var location: ConfigurationOptions
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        var problems: [String] = []
        var advice: [String] = []
        var plugins: [String] = []
        let examined = location.examine()
        let (settings, found) = (examined.settings, examined.problems?.seenFromAShell)
        do {
            if let settings {
                let report = try await ConfigurationCheck.run(settings, .system, found: found)
                let sockets = ConfigurationCheck.socketObstacles(settings)
                problems = report.problems + (ConfigurationCheck.dataObstacles(settings, .system) + sockets.certain).map(\.description)
                advice = report.warnings
                advice += ([ConfigurationCheck.dataAdvice(settings)].compactMap { $0 } + sockets.advice).map(\.description) + UsersAdvice.lines(settings)
                plugins = report.plugins.map(\.name)
            } else {
                problems = found?.problems.map(\.description) ?? []
            }
        } catch { problems = (found?.problems.map(\.description) ?? []) + ["\(error)"] }
        // Several checks may come to the same result.
        (problems, advice) = (Self.once(problems), Self.once(advice).filter { !problems.contains($0) })
        if json {
            Output.json(
                JSONOutput.object([
                    "ok": .bool(problems.isEmpty), "problems": .array(problems.map { .string($0) }),
                    "warnings": .array(advice.map { .string($0) }),
                    "plugins": .array(plugins.map { .string($0) }),
                ]))
        } else if problems.isEmpty {
            for line in advice { Output.errorLine("warning: \(line)") }
            if let settings { about(settings) }
            Output.line("configuration is valid\(plugins.isEmpty ? "" : "; plugins: \(plugins.joined(separator: ", "))")")
        } else {
            for problem in problems { Output.errorLine(problem) }
            for line in advice { Output.errorLine("warning: \(line)") }
        }
        if !problems.isEmpty { throw ExitCode(Failure.configuration) }
    }

    private static func once(_ lines: [String]) -> [String] {
        var seen: Set<String> = []
        return lines.filter { seen.insert($0).inserted }
    }

    /// Says which file is checked if none was named.
    private func about(_ settings: AgentSettings) {
        guard settings.file == nil else { return }
        Output.line(
            "no file was named: this is the built-in default, database main in \(settings.data.value), "
                + (settings.plugins.map { "plugins in \($0.value), " } ?? "no plugins, ") + "a listener on 127.0.0.1:4984. --config FILE looks at a file")
    }
}
