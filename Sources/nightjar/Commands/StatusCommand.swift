import Agent
import ArgumentParser
import Documents
import Environment
import Glibc

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Shows databases, listeners, replicators and plugins of a running agent.")

    @OptionGroup var location: LocationOptions
    @Flag(help: "Show it again every second, until interrupted.") var watch = false
    @Flag(help: "Print JSON; with --watch one object a line.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let agent = try location.agent()
            repeat {
                let status = try await agent.request("GET", "/api/status")
                if json {
                    Output.json(status)
                } else {
                    let text = StatusText.text(status)
                    Output.write(1, watch && isatty(1) == 1 ? "\u{1B}[H\u{1B}[J\(text)" : text)
                }
                if watch { try await Environment.system.time.sleep(seconds: 1) }
            } while watch
        }
    }
}
