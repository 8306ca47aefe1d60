import Documents
import TLS

/// Identities and certificates as status shows them; never a private key.
extension Agent {
    static func report(_ identity: IdentitySource) -> JSONValue {
        let leaf = identity.current.leaf
        return JSONOutput.object([
            "label": .string(identity.label),
            "subject": .string(leaf.subject),
            "sha256": .string(leaf.sha256),
            "pin": .string(leaf.pin),
            // Of the next key, to be pinned alongside this one.
            "next_pin": JSONOutput.text(identity.next?.pin),
            "expires_at": .string(Timestamp.format(leaf.notAfter)),
            "warning": JSONOutput.text(
                identity.failure.map { "the files are invalid, and the previous identity is in use: \($0)" } ?? identity.warning),
        ])
    }

    static func report(_ certificate: Certificate) -> JSONValue {
        JSONOutput.object([
            "subject": .string(certificate.subject),
            "common_name": JSONOutput.text(certificate.commonName),
            "serial": .string(certificate.serialNumber),
            "sha256": .string(certificate.sha256),
            "expires_at": .string(Timestamp.format(certificate.notAfter)),
        ])
    }

    static func report(_ security: ReplicatorSecurity) -> JSONValue {
        JSONOutput.object([
            "unsafe": .bool(security.isUnsafe),
            "identity": security.identity.map { report($0) } ?? .null,
            "connection": JSONOutput.text(security.server?.summary),
            "server_certificate": security.server.map { report($0.certificate) } ?? .null,
        ])
    }
}
