import Encodings

/// A TLS identity: in the key store, in two files, or behind an OpenSSL provider.
package enum IdentityReference: Sendable, Equatable {
    /// A label in the agent's key store.
    case label(Located<String>)
    /// PEM files, as absolute paths; each may also be a provider's URI. The passphrase is for an encrypted key.
    case files(certificate: Located<String>, key: Located<String>, passphrase: Secret?)
    /// Certificate and key behind one URI, such as `pkcs11:token=plant;object=gateway`.
    case provider(Located<String>)

    /// Its position in the file.
    package var position: SourcePosition {
        switch self {
        case .label(let label): label.position
        case .files(let certificate, _, _): certificate.position
        case .provider(let uri): uri.position
        }
    }
}

/// URIs that OpenSSL passes to a provider: PKCS#11 (RFC 7512) and the TPM 2 provider's schemes.
enum ProviderURI {
    private static let schemes = ["pkcs11:", "tpm2:", "handle:", "object:"]

    static let pattern = "(pkcs11|tpm2|handle|object):.+"

    static func isOne(_ text: String) -> Bool {
        schemes.contains { text.utf8.starts(with: $0.utf8) && text.utf8.count > $0.utf8.count }
    }

    /// A PIN in the URI would be shown wherever the URI is.
    static func check(_ text: String, at position: SourcePosition, _ reading: inout Reading) -> Bool {
        guard isOne(text), text.holds("pin-value=") else { return true }
        reading.report(at: position, "a PIN does not belong in the URI; write pin-source=file:PATH instead of pin-value")
        return false
    }
}

/// `{ certificate: F, key: F }`.
struct IdentityFilesSection: Sendable, ConfigurationSection {
    var certificate = Located("")
    var key = Located("")
    var passphrase: Located<Secret>?
    var position = SourcePosition.none

    static let sectionName = "identity_files"
    static let keys: [Key<IdentityFilesSection>] = [
        Key("certificate", \.certificate, Form<String>.pathOrURI.located, required: true,
            "PEM file with the certificate and its chain, or a pkcs11: URI."),
        Key("key", \.key, Form<String>.pathOrURI.located, required: true, "PEM file with the private key, or a pkcs11: URI."),
        Key("passphrase", optional: \.passphrase, Form<Secret>.secret.located, "Passphrase of an encrypted private key."),
    ]

    static func == (left: Self, right: Self) -> Bool { areSame(left, right) }
}

extension Form where Value == String {
    /// A path, converted to an absolute one, or a provider's URI unchanged.
    static let pathOrURI = Form<String>(
        shape: .text(pattern: nil), expected: "a path",
        read: { node, reading in
            guard let text = Form<String>.text("a path").read(node, &reading), ProviderURI.check(text, at: node.position, &reading) else {
                return nil
            }
            if !ProviderURI.isOne(text), Paths.reportShellSyntax(text, node, &reading) { return nil }
            return ProviderURI.isOne(text) ? text : Paths.resolve(text, in: reading.folder)
        })
}

extension Form where Value == IdentityReference {
    static let identity: Form<IdentityReference> = {
        let short = Form<String>.text(.identity)
        return Form<IdentityReference>(
            shape: short.shape, expected: short.expected,
            read: { node, reading in
                guard let text = short.read(node, &reading), ProviderURI.check(text, at: node.position, &reading) else { return nil }
                let located = Located(text, at: node.position)
                return ProviderURI.isOne(text) ? .provider(located) : .label(located)
            }
        ).or(IdentityFilesSection.self) { files, _ in
            .files(certificate: files.certificate, key: files.key, passphrase: files.passphrase?.value)
        }
    }()
}
