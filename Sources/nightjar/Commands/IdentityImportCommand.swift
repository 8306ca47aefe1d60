import Agent
import ArgumentParser
import Environment
import TLS

struct IdentityImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Imports an identity from PEM files or a PKCS#12 file into the key store.",
        discussion: """
            FILE is PEM with the certificate and its chain, in any order, or PKCS#12 (.p12, .pfx). The private key is in the \
            same file, or in the one of --key. Where something is encrypted, the passphrase is asked for on the terminal \
            unless an option says where it is.
            """)

    @OptionGroup var location: LocationOptions
    @OptionGroup var passphrase: PassphraseOptions
    @Argument(help: "Name in the key store.") var label: String
    @Argument(help: "PEM or PKCS#12.", completion: .file()) var file: String
    @Option(help: ArgumentHelp("PEM file with the private key.", valueName: "file"), completion: .file()) var key: String?
    @Flag(help: "Replace an identity of this label.") var replace = false
    @Flag(help: "Print JSON.") var json = false

    func run() async throws {
        try await Failure.reporting {
            let label = try IdentityLabel(label)
            let store = try location.keyStore()
            let identity = try readIdentity()
            try store.add(identity, as: label, replaces: replace)
            IdentityCommand.show(label, identity, json: json)
            let now = Environment.system.time.wallSeconds()
            if let warning = identity.expiryWarning(of: label, now: now), !json { Output.errorLine("nightjar: \(warning)") }
        }
    }

    /// Asks for a passphrase only if one is needed.
    private func readIdentity() throws -> Identity {
        let source = try IdentityFile(certificate: file, key: key)
        guard !passphrase.isGiven else { return try source.identity(passphrase: try passphrase.read("Passphrase: ")) }
        guard source.isEncrypted else { return try source.identity(passphrase: nil) }
        return try source.identity(passphrase: try passphrase.read("Passphrase of \(key ?? file): "))
    }
}

struct IdentityExportCommand: AsyncParsableCommand {
    enum Format: String, CaseIterable, ExpressibleByArgument { case p12, pem }

    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Writes an identity with its private key, encrypted with a passphrase.",
        discussion: """
            The file is readable by its owner only and must not be there yet. Without FILE, or with -, PEM goes to standard \
            output. For the certificates alone, which need no secrecy, see "nightjar identity show --pem".
            """)

    @OptionGroup var location: LocationOptions
    @OptionGroup var passphrase: PassphraseOptions
    @Argument(help: "Name in the key store.") var label: String
    @Argument(help: "The file to write.", completion: .file()) var file: String?
    @Option(help: ArgumentHelp("p12 (PKCS#12) or pem (default: by the name of the file, else pem).", valueName: "format")) var format: Format?
    @Flag(help: "Leave the private key unencrypted (PEM only).") var noPassphrase = false
    @Flag(help: "Replace the file.") var replace = false

    // The output is always PEM.
    @Flag(help: .hidden) var json = false

    private var wanted: Format {
        if let format { return format }
        let name = (file ?? "").lowercased()
        return name.hasSuffix(".p12") || name.hasSuffix(".pfx") ? .p12 : .pem
    }

    func validate() throws {
        if noPassphrase, passphrase.isGiven { throw ValidationError("--no-passphrase contradicts the other passphrase options") }
        if noPassphrase, wanted == .p12 { throw ValidationError("a PKCS#12 file is always encrypted: give a passphrase, or --format pem") }
    }

    func run() async throws {
        try await Failure.reporting {
            let label = try IdentityLabel(label)
            let identity = try location.keyStore().load(label)
            let secret = noPassphrase ? nil : try passphrase.read("Passphrase for the export: ", twice: true)
            try write(try encoded(identity, label, secret), label)
        }
    }

    private func encoded(_ identity: Identity, _ label: IdentityLabel, _ secret: SecretBytes?) throws -> SecretBytes {
        if wanted == .p12, let secret { return try PKCS12File.write(identity, name: label.text, passphrase: secret) }
        return try identity.pem(passphrase: secret)
    }

    private func write(_ bytes: SecretBytes, _ label: IdentityLabel) throws {
        if let file, file != "-" {
            try SecretFile.write(file, bytes, replaces: replace)
            Output.errorLine("nightjar: \(label) written to \(file)")
        } else {
            try bytes.withBytes { buffer in try Output.writeAll(1, buffer) }
        }
    }
}
