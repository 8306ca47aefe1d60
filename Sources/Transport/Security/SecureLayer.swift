import NIOCore
import TLS

/// What slips between the socket and HTTP, on either side: TLS.
///
/// The handler sees the socket's bytes and passes plain ones on. It holds back writes until its handshake is done, tells
/// the pipeline with a ``SecurePeer`` as inbound user event, and fires a ``ReplicationError``, of the domain `tls` unless the
/// connection just ended, when it fails. ``tls(server:)`` and ``tls(client:)`` make the real one.
public struct SecureLayer: Sendable {
    public enum Role: Sendable, Equatable {
        case server
        /// The host name that the certificate has to be for.
        case client(host: String, port: Int)
    }

    /// Called on the channel's event loop, once for every connection.
    public var makeHandlers: @Sendable (Role) throws -> [any ChannelHandler]

    public init(makeHandlers: @escaping @Sendable (Role) throws -> [any ChannelHandler]) {
        self.makeHandlers = makeHandlers
    }
}

/// Who is at the other end of a secure layer.
public struct SecurePeer: Sendable, Equatable {
    /// The certificates that the peer showed, leaf first, DER; empty if none.
    public var certificates: [[UInt8]]
    /// Protocol version and cipher, for status.
    public var summary: String
    /// On what ground a client accepted its server; nil at a listener.
    package var trust: ServerTrust?

    package init(certificates: [[UInt8]], summary: String, trust: ServerTrust? = nil) {
        self.certificates = certificates
        self.summary = summary
        self.trust = trust
    }
}
