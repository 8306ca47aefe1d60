/// Fired through the pipeline as inbound user event when both sides agreed; plain bytes flow from then on.
package struct TLSHandshakeCompleted: Sendable {
    /// What the peer showed, leaf first; empty if nothing. A server has checked them if its context says so.
    package var certificates: [Certificate]
    /// `TLSv1.3` or `TLSv1.2`.
    package var version: String
    /// OpenSSL's name of the cipher.
    package var cipher: String
    /// What ALPN chose, `http/1.1`; nil where the peer did not ask.
    package var applicationProtocol: String?
    /// The host name that the client asked for (SNI).
    package var serverName: String?
    /// A session of before was taken up again.
    package var isResumed: Bool
    /// On what ground a client accepted the server; nil at a server.
    package var trust: ServerTrust?

    /// Version and cipher, for status.
    package var summary: String { "\(version) \(cipher)" }
}

/// Whom a client wants to reach.
package struct TLSEndpoint: Sendable, Hashable {
    /// A host name or an address, without brackets.
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// The name for SNI: none for addresses (RFC 6066, section 3), without the root's dot.
    var serverName: String? {
        guard !host.isEmpty, !isAddress else { return nil }
        return host.utf8.last == UInt8(ascii: ".") ? String(host.dropLast()) : host
    }

    var isAddress: Bool { ChainVerification.isAddress(host) }
}
