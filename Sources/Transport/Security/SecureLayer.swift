import NIOCore
import TLS

/// A layer between the socket and HTTP, on either side: TLS.
///
/// The handler receives the socket's bytes and passes on plain ones. It holds back writes until its handshake is complete,
/// tells the pipeline with a ``SecurePeer`` as an inbound user event, and on failure fires a ``ReplicationError``, in the
/// domain `tls` unless the connection merely ended. ``tls(server:)`` and ``tls(client:)`` create the real one.
public struct SecureLayer: Sendable {
    public enum Role: Sendable, Equatable {
        case server
        /// The host name that the certificate has to match.
        case client(host: String, port: Int)
    }

    /// Called on the channel's event loop, once for every connection.
    public var makeHandlers: @Sendable (Role) throws -> [any ChannelHandler]

    public init(makeHandlers: @escaping @Sendable (Role) throws -> [any ChannelHandler]) {
        self.makeHandlers = makeHandlers
    }
}

/// The identity at the other end of a secure layer.
public struct SecurePeer: Sendable, Equatable {
    /// The certificates that the peer presented, leaf first, in DER; empty if none.
    public var certificates: [[UInt8]]
    /// Protocol version and cipher, for status.
    public var summary: String
    /// Why a client accepted its server; nil at a listener.
    package var trust: ServerTrust?

    package init(certificates: [[UInt8]], summary: String, trust: ServerTrust? = nil) {
        self.certificates = certificates
        self.summary = summary
        self.trust = trust
    }
}
