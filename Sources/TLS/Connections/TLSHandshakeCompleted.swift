/// Fired through the pipeline as an inbound user event after a successful handshake; plain bytes follow.
package struct TLSHandshakeCompleted: Sendable {
    /// What the peer presented, leaf first; empty if nothing. A server has verified them if its context says
    /// so.
    package var certificates: [Certificate]
    /// `TLSv1.3` or `TLSv1.2`.
    package var version: String
    /// OpenSSL's name for the cipher.
    package var cipher: String
    /// The protocol selected by ALPN, `http/1.1`; nil if the peer did not use ALPN.
    package var applicationProtocol: String?
    /// The host name requested by the client (SNI).
    package var serverName: String?
    /// Whether an earlier session was resumed.
    package var isResumed: Bool
    /// Why a client accepted the server; nil at a server.
    package var trust: ServerTrust?

    /// Version and cipher, for status.
    package var summary: String { "\(version) \(cipher)" }
}

/// The server that a client connects to.
package struct TLSEndpoint: Sendable, Hashable {
    /// A host name or an address, without brackets.
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// The name for SNI: none for addresses (RFC 6066, section 3), without a trailing dot.
    var serverName: String? {
        guard !host.isEmpty, !isAddress else { return nil }
        return host.utf8.last == UInt8(ascii: ".") ? String(host.dropLast()) : host
    }

    var isAddress: Bool { ChainVerification.isAddress(host) }
}
