import Encodings

/// How a client authenticates its server.
///
/// The rules, in order of precedence as in Couchbase Lite:
/// 1. With pins, nothing else matters: the server's chain must contain one of them.
/// 2. Otherwise, with ``acceptsOnlySelfSigned``, any self-signed certificate is accepted and every other one refused, regardless of its issuer.
/// 3. Otherwise the chain must lead to a root of the system (or an extra one), be valid now and match the host.
package struct ServerAuthentication: Sendable, Equatable {
    /// Several, so that a certificate can be replaced without interruption.
    package var pins: [CertificatePin]
    package var acceptsOnlySelfSigned: Bool
    package var trustsSystemRoots: Bool
    /// Trusted in addition to the system's; may include intermediates or self-signed certificates.
    package var extraRoots: [Certificate]
    /// With rule 3: lists of revoked certificates.
    package var revocationLists: [RevocationList]
    /// Replaces rule 3: every server is accepted. The connection is encrypted, but the peer is unknown.
    package var unsafelySkipsVerification: Bool
    /// A file that replaces the system's roots, for tests.
    var systemRootsFile: String?

    package init(
        pins: [CertificatePin] = [], acceptsOnlySelfSigned: Bool = false, trustsSystemRoots: Bool = true, extraRoots: [Certificate] = [],
        revocationLists: [RevocationList] = [], unsafelySkipsVerification: Bool = false
    ) {
        self.pins = pins
        self.acceptsOnlySelfSigned = acceptsOnlySelfSigned
        self.trustsSystemRoots = trustsSystemRoots
        self.extraRoots = extraRoots
        self.revocationLists = revocationLists
        self.unsafelySkipsVerification = unsafelySkipsVerification
    }

    /// The rule in force.
    package enum Rule: String, Sendable, CaseIterable {
        case pinned, selfSignedOnly, roots, unsafelyNone

        /// Whether certificates that have expired, or are not valid yet, are refused. Pins are matched by keys and signatures alone.
        package var checksDates: Bool { self == .roots }
    }

    package var rule: Rule {
        if !pins.isEmpty { return .pinned }
        if acceptsOnlySelfSigned { return .selfSignedOnly }
        return unsafelySkipsVerification ? .unsafelyNone : .roots
    }
}

/// A certificate, or only its key, by which a server is recognised.
package enum CertificatePin: Sendable, Equatable, CustomStringConvertible {
    case certificate(Certificate)
    /// SHA-256 of the SubjectPublicKeyInfo: unchanged if the certificate is renewed with the same key.
    case publicKey(sha256: [UInt8])

    package func matches(_ certificate: Certificate) -> Bool {
        switch self {
        // The same server with a renewed certificate has the same key.
        case .certificate(let pinned):
            pinned == certificate || !certificate.publicKeyDigest.isEmpty && pinned.publicKeyDigest == certificate.publicKeyDigest
        case .publicKey(let digest): certificate.publicKeyDigest == digest
        }
    }

    package var description: String {
        switch self {
        case .certificate(let pinned): "\(pinned.subject) (SHA-256 \(pinned.sha256))"
        case .publicKey(let digest): "sha256/\(Base64.encode(digest))"
        }
    }

    /// From `sha256/BASE64` (or curl's `sha256//BASE64`); nil for anything else.
    package init?(publicKeyText text: String) {
        var rest = Substring(text)
        guard rest.hasPrefix("sha256/") else { return nil }
        rest = rest.dropFirst(7)
        if rest.utf8.count == 45, rest.hasPrefix("/") { rest = rest.dropFirst() }
        guard let digest = Base64.decode(rest), digest.count == 32 else { return nil }
        self = .publicKey(sha256: digest)
    }
}

/// Why a server was accepted.
package enum ServerTrust: Sendable, Equatable {
    case pinnedCertificate
    /// A pinned authority signed it.
    case pinnedAuthority(subject: String)
    case selfSigned
    /// The chain leads to a trusted root and matches the host.
    case roots
    /// Verification is disabled.
    case unsafelyNone
}
