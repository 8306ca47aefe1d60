import Agent
import ArgumentParser
import TLS

struct IdentitySwitchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "switch", abstract: "Puts the key that was made with create --next in force.",
        discussion: """
            The one before stays in the key store as LABEL.before, and --back puts it in force again. A running agent takes the change by itself \
            within seconds; connections that are there go on.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "Name in the key store.") var label: String
    @Flag(help: "Put the one before in force again.") var back = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let label = try IdentityLabel(label)
            let store = try location.keyStore()
            let identity: Identity
            do throws(TLSFileError) { identity = try store.exchange(label, with: back ? .before : .next) } catch where error.kind == .missing {
                throw AgentError(
                    .notFound,
                    back ? "\(error.reason): \(label) was not switched" : "\(error.reason): make it with nightjar identity create \(label) --next, and have the peers pin it")
            }
            IdentityCommand.show(label, identity, json: json)
        }
    }
}
