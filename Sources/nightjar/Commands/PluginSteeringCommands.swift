import Agent
import ArgumentParser
import Documents
import Encodings

struct PluginReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Makes the running agent read the plugins folder now. Exit status 1 if a version is refused.",
        discussion: "Naming a plugin ends its rollback. Documents and conflicts that a plugin could not decide are retried.")

    @OptionGroup var location: LocationOptions
    @Argument(help: "One plugin; all if absent.") var name: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let path = name.map { "/api/plugins/\(PercentEncoding.encode($0))/reload" } ?? "/api/plugins/reload"
            let verdicts = try await location.agent().request("POST", path)
            if json { Output.json(verdicts) }
            var isRefused = false
            for verdict in verdicts.asArray ?? [] {
                let outcome = verdict["outcome"]?.asString ?? ""
                isRefused = isRefused || outcome == "refused" || outcome == "missing"
                if !json { Verdict.show(verdict) }
            }
            if isRefused { throw ExitCode(Failure.failed) }
        }
    }
}

struct PluginRollbackCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback", abstract: "Makes the running agent go back to the previous version of a plugin.",
        discussion: """
            Nothing is written into the plugins folder. The older version stays in force, even after a restart, until a file of the plugin \
            changes or "plugin reload NAME" names it. "plugin list --json" shows the versions that are kept.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "The plugin.") var name: String
    @Option(help: "The beginning of a kept version; the previous one if absent.") var to: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let query = to.map { "?to=\(PercentEncoding.encode($0))" } ?? ""
            let verdict = try await location.agent().request("POST", "/api/plugins/\(PercentEncoding.encode(name))/rollback\(query)")
            if json { return Output.json(verdict) }
            Verdict.show(verdict)
            if let warning = verdict["warning"]?.asString { Output.errorLine("nightjar: warning: \(TextTable.printable(warning))") }
        }
    }
}

struct PluginRetryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Retries what is held or pending because a plugin failed, even where the plugin is no longer called.")

    @OptionGroup var location: LocationOptions
    @Argument(help: "One plugin; all if absent.") var name: String?
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let path = name.map { "/api/plugins/\(PercentEncoding.encode($0))/retry" } ?? "/api/plugins/retry"
            let asked = try await location.agent().request("POST", path)
            if json { return Output.json(asked) }
            for row in asked.asArray ?? [] {
                let places = Plural.count(Int(row["uses"]?.asInt64 ?? 0), "place")
                Output.line(TextTable.printable("\(row["plugin"]?.asString ?? ""): tried again in \(places)"))
            }
        }
    }
}

/// What happened to one plugin, as one line.
private enum Verdict {
    static func show(_ verdict: JSONValue) {
        let outcome = (verdict["outcome"]?.asString ?? "").split(separator: "_").joined(separator: " ")
        let error = verdict["error"]?.asString.map { ": \($0)" } ?? ""
        let from = verdict["rolled_back"]?["from"]?.asString.map { " from version \($0)" } ?? ""
        let generation = verdict["generation"]?.text ?? "0"
        Output.line(TextTable.printable(
            "\(verdict["plugin"]?.asString ?? ""): \(outcome)\(from), version \(verdict["version"]?.asString ?? "none") serves "
                + "(generation \(generation))\(error)"))
    }
}
