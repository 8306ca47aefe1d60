import Agent
import ArgumentParser
import Discovery
import Documents
import Encodings
import Environment
import NIOPosix

struct DiscoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "discover", abstract: "Shows listeners that announce themselves on the local network.",
        discussion: """
            They are those of agents with `advertise`, found by the Avahi of this machine (apt install avahi-daemon). Anybody on the local network \
            can announce anything: compare a pin with what `nightjar identity show` says at the peer before you write it into a configuration. A \
            replicator finds a listener by its name: `target: discover:NAME`.
            """)

    @Option(help: "Look for this many seconds, 1 to 60.") var seconds = 3
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        guard (1...60).contains(seconds) else { throw ValidationError("--seconds is from 1 to 60, not \(seconds)") }
    }

    func run() async throws {
        try await Failure.reporting {
            let found: [FoundService]
            do throws(DiscoveryError) {
                found = try await ServiceLookup.browse(seconds: seconds, group: MultiThreadedEventLoopGroup.singleton, environment: .system)
            } catch { throw AgentError(.failed, "\(error); \(error.remedy)") }
            if json { return Output.json(.array(found.map(Self.report))) }
            guard !found.isEmpty else { return Output.line("Nobody announces a listener on the local network.") }
            for service in found { Output.write(1, Self.text(service)) }
        }
    }

    private static func urls(_ service: FoundService) -> [String] {
        let scheme = service.text.usesTLS ? "wss" : "ws"
        let databases = service.text.databases.isEmpty ? ["DATABASE"] : service.text.databases
        return service.addresses.flatMap { address in
            databases.map { "\(scheme)://\(address.contains(":") ? "[\(address)]" : address):\(service.port)/\($0)" }
        }
    }

    private static func report(_ service: FoundService) -> JSONValue {
        JSONOutput.object([
            "name": .string(service.name), "host": .string(service.host), "addresses": .array(service.addresses.map { .string($0) }),
            "port": JSONOutput.number(service.port), "databases": .array(service.text.databases.map { .string($0) }), "tls": .bool(service.text.usesTLS),
            "pin": JSONOutput.text(service.text.pin), "next_pin": JSONOutput.text(service.text.nextPin), "peer": JSONOutput.text(service.text.peer),
            "group": JSONOutput.text(service.text.group), "local": .bool(service.isLocal),
            "urls": .array(urls(service).map { .string($0) }),
        ])
    }

    private static func text(_ service: FoundService) -> String {
        var lines = ["\(service.name)\(service.isLocal ? " (this machine)" : "")  at \(service.host)"]
        lines += urls(service).map { "  \($0)" }
        lines.append("  pin   \(service.text.pin ?? (service.text.usesTLS ? "none announced" : "none: clear text"))")
        if let next = service.text.nextPin { lines.append("  next  \(next)") }
        if let peer = service.text.peer { lines.append("  peer  \(peer)") }
        if let group = service.text.group { lines.append("  group \(group)") }
        return lines.map { TextTable.printable($0) + "\n" }.joined()
    }
}
