/// The oldest accepted version of TLS.
package enum TLSVersion: Sendable {
    case v1_2, v1_3
}

/// A listener's TLS options.
package struct TLSServerOptions: Sendable {
    package var identity: Identity
    package var clientCertificates = ClientCertificates.none
    package var limits = TLSConnectionLimits()
    package var minimum = TLSVersion.v1_2
    /// OpenSSL's level: 2 requires 112 bits of strength (RSA with 2,048 bits). Lowered only to test how clients handle weak
    /// keys.
    var securityLevel: Int32 = 2

    package init(identity: Identity) {
        self.identity = identity
    }
}

/// The TLS options of a replicator or HTTP client.
package struct TLSClientOptions: Sendable {
    package var serverAuthentication: ServerAuthentication
    /// Presented to servers that request a client certificate.
    package var identity: Identity?
    package var limits = TLSConnectionLimits()
    package var minimum = TLSVersion.v1_2
    var securityLevel: Int32 = 2

    package init(serverAuthentication: ServerAuthentication = ServerAuthentication(), identity: Identity? = nil) {
        self.serverAuthentication = serverAuthentication
        self.identity = identity
    }
}

/// What a listener requires of its clients.
package struct ClientCertificates: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Not requested.
        case none
        /// Requested; a client without one is accepted.
        case request
        /// A client without one is refused in the handshake.
        case require
    }

    package var mode: Mode
    /// The issuers, of which one must have issued a presented certificate. If nil, certificates are only collected, for an
    /// authenticator to judge.
    package var roots: [Certificate]?
    /// With roots: certificates that are no longer valid.
    package var revocationLists: [RevocationList]

    package static let none = ClientCertificates(mode: .none, roots: nil)

    package init(mode: Mode, roots: [Certificate]?, revocationLists: [RevocationList] = []) {
        self.revocationLists = revocationLists
        self.mode = mode
        self.roots = roots
    }

    /// Whether a chain that a client presented in its handshake, its own certificate first, would be accepted now.
    package func accepts(_ chain: [Certificate]) -> Bool {
        guard let roots, !chain.isEmpty else { return true }
        return ChainVerification.leads(chain, to: roots, unless: revocationLists)
    }
}
