import Agent
import ArgumentParser
import Documents

struct ReloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Makes the running agent read its configuration again, as SIGHUP does.")

    @OptionGroup var location: LocationOptions
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let answer = try await location.agent().request("POST", "/api/reload")
            if json { return Output.json(answer) }
            for line in answer["done"]?.asArray ?? [] { Output.line(line.asString ?? line.text) }
        }
    }
}
