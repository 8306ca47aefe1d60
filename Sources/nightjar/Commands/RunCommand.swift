import Agent
import AgentConfiguration
import ArgumentParser
import Environment

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Runs the agent in the foreground.",
        discussion: """
            SIGTERM and SIGINT stop it cleanly, within five seconds; one that has not stopped after \(ProcessSignals.longestStop) s \
            ends itself with status \(ProcessSignals.exitStatus). SIGHUP reads the configuration again. Without --config it runs an embedded \
            default: data in ./nightjar-data, plugins in ./plugins if there is such a folder, the database main, and a \
            listener on 127.0.0.1:4984. It does not read a ./nightjar.yaml then, and warns if there is one.
            """)

    @OptionGroup var location: ConfigurationOptions

    func run() async throws {
        let environment = Environment.system
        // Before anything else, so that a signal during startup is not lost.
        let signals: ProcessSignals
        do { signals = try ProcessSignals(time: environment.time) } catch { throw Failure.exit(for: error) }
        System.boundAllocator()
        let settings = try location.load()
        let logs = LogSink(time: environment.time)
        let location = location
        let service = AgentService(
            settings: settings, logs: logs, environment: environment, signals: signals, load: { try location.read() },
            examine: { location.examine() }, advise: { UsersAdvice.lines($0) }, rehearse: RehearsalOfText.run,
            ready: { addresses in Output.line(logs.readyLine(addresses)) })
        do { try await service.run() } catch { throw Failure.exit(for: error) }
    }
}
