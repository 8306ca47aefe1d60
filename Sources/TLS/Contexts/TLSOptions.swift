/// The oldest version of TLS that is spoken.
package enum TLSVersion: Sendable {
    case v1_2, v1_3
}

/// What a listener needs for TLS.
package struct TLSServerOptions: Sendable {
    package var identity: Identity
    package var clientCertificates = ClientCertificates.none
    package var limits = TLSConnectionLimits()
    package var minimum = TLSVersion.v1_2
    /// OpenSSL's: 2 asks for 112 bits of strength (RSA of 2,048 bits). Lowered only to test what clients make of weak keys.
    var securityLevel: Int32 = 2

    package init(identity: Identity) {
        self.identity = identity
    }
}

/// What a replicator or an HTTP client needs for TLS.
package struct TLSClientOptions: Sendable {
    package var serverAuthentication: ServerAuthentication
    /// Shown to servers that ask for a client certificate.
    package var identity: Identity?
    package var limits = TLSConnectionLimits()
    package var minimum = TLSVersion.v1_2
    var securityLevel: Int32 = 2

    package init(serverAuthentication: ServerAuthentication = ServerAuthentication(), identity: Identity? = nil) {
        self.serverAuthentication = serverAuthentication
        self.identity = identity
    }
}

/// What a listener wants of its clients.
package struct ClientCertificates: Sendable, Equatable {
    package enum Mode: String, Sendable, CaseIterable {
        /// Not asked for.
        case none
        /// Asked for; a client without one is served.
        case request
        /// A client without one is refused in the handshake.
        case require
    }

    package var mode: Mode
    /// A shown certificate has to lead to one of these. nil: it is only collected, for an authenticator to judge.
    package var roots: [Certificate]?
    /// With roots: what counts no more.
    package var revocationLists: [RevocationList]

    package static let none = ClientCertificates(mode: .none, roots: nil)

    package init(mode: Mode, roots: [Certificate]?, revocationLists: [RevocationList] = []) {
        self.revocationLists = revocationLists
        self.mode = mode
        self.roots = roots
    }

    /// Whether a chain that a client has shown in its handshake, its own certificate first, would be taken now.
    package func accepts(_ chain: [Certificate]) -> Bool {
        guard let roots, !chain.isEmpty else { return true }
        return ChainVerification.leads(chain, to: roots, unless: revocationLists)
    }
}
