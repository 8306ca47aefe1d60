import Agent
import ArgumentParser
import Documents

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Makes the running agent read its configuration again, as SIGHUP does.",
        discussion: """
            With --config, the agent that was started with that file is found even if data in the file has changed since: it stays on its folder until it is \
            restarted. Elsewhere, name the folder it runs on with --data. A "warning:" marks what nightjar check warns of as well, and what would keep the agent \
            from starting again.
            """)

    @OptionGroup var location: LocationOptions
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let answer = try await location.agentAnywhere().request("POST", "/api/reload")
            if json { return Output.json(answer) }
            for line in answer["warnings"]?.asArray ?? [] { Output.errorLine("warning: \(line.asString ?? line.text)") }
            for line in answer["done"]?.asArray ?? [] { Output.line(line.asString ?? line.text) }
        }
    }
}
