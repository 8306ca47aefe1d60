import Agent
import AgentConfiguration
import ArgumentParser
import Documents
import Environment
import TLS

struct IdentityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "identity", abstract: "TLS identities in the agent's key store: certificates with their private keys.",
        discussion: """
            The key store is the folder identities in the data folder. Listeners and replicators name an identity by its \
            label; a running agent picks up a replaced one by itself. The label anonymous is the self-signed identity \
            that the agent makes for listeners without another one.
            """,
        subcommands: [Create.self, IdentitySwitchCommand.self, List.self, Show.self, IdentityImportCommand.self, IdentityExportCommand.self, Remove.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create", abstract: "Makes a key and a self-signed certificate.",
            discussion: """
                Peers check the names: give each host name and address by which they reach this machine. With --replace and neither --dns nor --ip \
                the new certificate has the names of the one that it replaces, and its subject and kind of key unless an option says otherwise.
                """)

        @OptionGroup var location: LocationOptions
        @Argument(help: "Name in the key store.") var label: String
        @Option(help: ArgumentHelp("Host name of this machine; may be repeated.", valueName: "host")) var dns: [String] = []
        @Option(help: ArgumentHelp("IP address of this machine; may be repeated.", valueName: "address")) var ip: [String] = []
        @Option(help: ArgumentHelp("Common name (default: the first name, else the label; where names are kept, the one that is replaced).", valueName: "name")) var commonName: String?
        @Option(name: [.customLong("validity"), .customLong("days")], help: ArgumentHelp("Days until it expires.", valueName: "days")) var validity = IdentityRequest.defaultValidityDays
        @Option(
            help: ArgumentHelp(
                "Kind of key: \(IdentityRequest.KeyKind.allCases.map(\.rawValue).joined(separator: ", ")) (default: p256; that of a self-signed one that is replaced).",
                valueName: "kind"))
        var key: IdentityRequest.KeyKind?
        @Flag(help: "Replace an identity of this label; a self-signed one keeps its key, so that peers' pins stay valid.") var replace = false
        @Flag(help: "Make a new key when replacing, if the old one is no longer safe.") var newKey = false
        @Flag(help: "Make the next key, alongside the one in force: the agent announces its pin, and nightjar identity switch puts it in force.") var next = false
        @Flag(help: "Print JSON.") var json = false

        func validate() throws {
            if next, newKey { throw ValidationError("--next makes a new key in any case: leave --new-key out") }
        }

        func run() async throws {
            try await Failure.reporting {
                let store = try location.keyStore()
                let label = try IdentityLabel(label)
                var request = IdentityRequest(
                    names: AlternativeNames(dns: dns, ip: ip), commonName: commonName, validityDays: validity, key: key ?? .p256)
                if next { return try prepare(store, label, request) }
                let note = replace ? keep(store, label, &request) : nil
                IdentityCommand.show(label, try store.create(label, request, replaces: replace, newKey: newKey), json: json)
                if let note { Output.errorLine("nightjar: \(TextTable.printable(note))") }
            }
        }

        private func prepare(_ store: KeyStore, _ label: IdentityLabel, _ wanted: IdentityRequest) throws {
            var request = wanted
            let present = try store.load(label).leaf
            _ = keep(store, label, &request)
            let name = try KeyStore.label(.next, of: label)
            let made = try store.create(name, request, replaces: replace, newKey: true)
            IdentityCommand.show(name, made, json: json)
            Output.errorLine(
                "nightjar: have every peer pin both, [ \(present.pin), \(made.leaf.pin) ]; the agent announces the new one. Then: nightjar identity switch \(label)")
        }

        /// Keeps the names of the replaced certificate, so that peers that reach this machine by name find the name in the renewed one; and the kind
        /// of key, so that the key itself is kept and peers' pins remain valid.
        ///
        /// - Returns: a message about the names.
        private func keep(_ store: KeyStore, _ label: IdentityLabel, _ request: inout IdentityRequest) -> String? {
            let old: Identity
            do { old = try store.load(label) } catch {
                guard error.kind != .missing, request.names.isEmpty else { return nil }
                return "the names of the certificate that is replaced could not be read: the new one has none; give them with --dns and --ip"
            }
            if key == nil, let kind = old.renewableKey { request.key = kind }
            guard request.names.isEmpty else { return nil }
            let lost = request.keepNames(of: old.leaf)
            let kept = request.names.dns + request.names.ip
            let left = lost.isEmpty ? "" : "; not \(lost.joined(separator: ", ")), which a certificate made here cannot have"
            if kept.isEmpty, lost.isEmpty { return nil }
            return kept.isEmpty
                ? "the new certificate has no names\(left)"
                : "the names of the replaced certificate are kept: \(kept.joined(separator: ", "))\(left); --dns and --ip give others"
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "Lists the identities.",
            discussion: "Exit status 1 if one cannot be used: its files are invalid, or it has expired or is not valid yet. One that expires within 30 days is named "
                + "on standard error.")

        @OptionGroup var location: LocationOptions
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let entries = try location.keyStore().list()
                let now = Environment.system.time.wallSeconds()
                let errors = entries.compactMap(\.error)
                let identities = entries.compactMap { entry in (try? entry.identity.get()).map { (entry.label, $0) } }
                if json {
                    Output.json(.array(entries.map { IdentityText.json($0, now: now) }))
                } else if entries.isEmpty {
                    Output.line("no identities")
                } else {
                    Output.write(1, IdentityText.table(entries))
                }
                for error in errors { Output.errorLine("nightjar: \(TextTable.printable("\(error)"))") }
                for (label, identity) in identities {
                    if let warning = identity.expiryWarning(of: label, now: now) { Output.errorLine("nightjar: \(TextTable.printable(warning))") }
                }
                if !errors.isEmpty || identities.contains(where: { !$0.1.isValid(at: now) }) { throw ExitCode(Failure.failed) }
            }
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Shows an identity: names, validity, fingerprint and pin. Never its key.")

        @OptionGroup var location: LocationOptions
        @Argument(help: "Name in the key store.") var label: String
        @Flag(help: "Print the certificates as PEM, for peers to pin.") var pem = false
        @Flag(help: "Print JSON.") var json = false

        func validate() throws {
            if pem, json { throw ValidationError("give --pem or --json, not both") }
        }

        func run() async throws {
            try await Failure.reporting {
                let label = try IdentityLabel(label)
                let identity = try location.keyStore().load(label)
                if pem { Output.write(1, identity.certificatesPEM) } else { IdentityCommand.show(label, identity, json: json) }
            }
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rm", abstract: "Removes an identity with its key.",
            discussion: """
                Refuses to remove one that the configuration names: at its next start the agent would refuse the configuration. A running agent \
                goes on with what it has read.
                """)

        @OptionGroup var location: LocationOptions
        @Argument(help: "Name in the key store.") var label: String
        @Flag(help: "Remove it even if the configuration names it.") var force = false
        @Flag(help: "Print JSON.") var json = false

        func run() async throws {
            try await Failure.reporting {
                let label = try IdentityLabel(label)
                // If the configuration is invalid, it is uncertain what it uses.
                let users = force ? [] : (try? location.settings())?.users(ofIdentity: label.text) ?? []
                guard users.isEmpty else {
                    throw AgentError(.conflict, "the identity \(label) is that of \(users.joined(separator: ", ")), and peers may have pinned its key: name another there first, or give --force")
                }
                try location.keyStore().remove(label)
                if json { Output.json(["label": .string(label.text), "removed": .bool(true)]) } else { Output.line("\(label) removed") }
            }
        }
    }

    static func show(_ label: IdentityLabel, _ identity: Identity, json: Bool) {
        let now = Environment.system.time.wallSeconds()
        if json { Output.json(IdentityText.json(label, identity, now: now)) } else { Output.write(1, IdentityText.text(label, identity, now: now)) }
    }
}

extension IdentityRequest.KeyKind: ExpressibleByArgument {}

extension LocationOptions {
    /// The key store of the data folder, whether or not an agent is running.
    func keyStore() throws -> KeyStore { KeyStore(dataFolder: try place().data.value, time: Environment.system.time) }
}

extension AgentSettings {
    /// Where the configuration refers to an identity in the key store.
    fileprivate func users(ofIdentity label: String) -> [String] {
        func isIt(_ identity: IdentityReference?) -> Bool {
            if case .label(let named)? = identity { named.value.utf8.elementsEqual(label.utf8) } else { false }
        }
        // A listener that names no identity uses the one that the agent made.
        func isItsOwn(_ listener: ListenerSettings) -> Bool {
            listener.identity == nil && listener.usesTLS && label.utf8.elementsEqual(IdentityLabel.anonymous.text.utf8)
        }
        return listeners.filter { isIt($0.identity) || isItsOwn($0) }.map { "listener \($0.name.value)" }
            + replicators.filter { isIt($0.authenticator?.identity) }.map { "replicator \($0.name.value)" }
    }
}
