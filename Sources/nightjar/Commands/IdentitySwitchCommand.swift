import Agent
import ArgumentParser
import TLS

struct IdentitySwitchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "switch", abstract: "Puts the key that was made with create --next into force.",
        discussion: """
            The previous key stays in the key store as LABEL.before, and --back puts it into force again. A running agent picks up the change by itself \
            within seconds; existing connections continue.
            """)

    @OptionGroup var location: LocationOptions
    @Argument(help: "Name in the key store.") var label: String
    @Flag(help: "Put the previous key in force again.") var back = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let label = try IdentityLabel(label)
            let store = try location.keyStore()
            IdentityCommand.show(label, try exchanged(label, store), json: json)
        }
    }

    private func exchanged(_ label: IdentityLabel, _ store: KeyStore) throws -> Identity {
        do {
            return try store.exchange(label, with: back ? .before : .next)
        } catch {
            throw missing(error, label) ?? error
        }
    }

    /// The advice if there is no such key.
    private func missing(_ error: any Error, _ label: IdentityLabel) -> AgentError? {
        guard let error = error as? TLSFileError, error.kind == .missing else { return nil }
        let remedy = back ? "\(label) was not switched" : "make it with nightjar identity create \(label) --next, and have the peers pin it"
        return AgentError(.notFound, "\(error.reason): \(remedy)")
    }
}
