import NIOCore
import TLS

/// What slips between the socket and HTTP, on either side: TLS.
///
/// The handler sees the socket's bytes and passes plain ones on. It holds back writes until its handshake is done, tells
/// the pipeline with a ``SecurePeer`` as inbound user event, and fires a ``ReplicationError``, of the domain `tls` unless the
/// connection just ended, when it fails. ``tls(server:)`` and ``tls(client:)`` make the real one.
package struct SecureLayer: Sendable {
    package enum Role: Sendable, Equatable {
        case server
        /// The host name that the certificate has to be for.
        case client(host: String, port: Int)
    }

    /// Called on the channel's event loop, once for every connection.
    package var makeHandlers: @Sendable (Role) throws -> [any ChannelHandler]

    package init(makeHandlers: @escaping @Sendable (Role) throws -> [any ChannelHandler]) {
        self.makeHandlers = makeHandlers
    }
}

/// Who is at the other end of a secure layer.
package struct SecurePeer: Sendable, Equatable {
    /// The certificates that the peer showed, leaf first, DER; empty if none.
    package var certificates: [[UInt8]]
    /// Protocol version and cipher, for status.
    package var summary: String
    /// On what ground a client accepted its server; nil at a listener.
    package var trust: ServerTrust?

    package init(certificates: [[UInt8]], summary: String, trust: ServerTrust? = nil) {
        self.certificates = certificates
        self.summary = summary
        self.trust = trust
    }
}
