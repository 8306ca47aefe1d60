import Environment
import NIOCore

/// One open connection that carries whole binary messages, usually a WebSocket.
///
/// The replication protocol is written against this interface, so that it runs unchanged over a socket, a pipe, or an in-memory network in a test.
/// Everything marked "context only" must be called in ``executionContext``.
public protocol MessageTransport: AnyObject, Sendable {
    /// Where the receiver is called, and where this connection's session runs.
    var executionContext: any SerialContext { get }

    /// False while the peer or the network takes less than we write. Context only.
    var isWritable: Bool { get }

    /// Bytes written that the peer or the network has not taken, as far as they are buffered here. Context only.
    var waitingBytes: Int { get }

    /// Starts delivery. Context only, once; messages that arrived before are delivered first.
    func start(_ receiver: any MessageReceiver)

    /// Sends each buffer as one binary message and flushes once. Context only.
    func write(_ messages: [ByteBuffer])

    /// Back-pressure: stops or resumes reading from the peer. Context only.
    func setReading(_ enabled: Bool)

    /// Closes with a WebSocket close code and waits a limited time for the peer's answer. Any thread.
    func close(code: UInt16, reason: String)

    /// Ends the connection without a CLOSE frame; the peer sees 1006. Any thread.
    func drop()

    /// The peer's address, for logs and status.
    var peerDescription: String { get }

    /// The id of this connection in both sides' logs (``CorrelationID``); nil if none was exchanged.
    var correlationID: String? { get }

    /// The replication protocol agreed on; nil for the default one, if nothing was negotiated.
    var subprotocol: Subprotocol? { get }

    /// The peer is a Nightjar: it knows revisions both by their versions and by their ids.
    var peerHasBothNames: Bool { get }
}

extension MessageTransport {
    public var correlationID: String? { nil }

    public var subprotocol: Subprotocol? { nil }

    public var peerHasBothNames: Bool { false }

    /// For transports whose bytes are buffered or counted elsewhere.
    public var waitingBytes: Int { 0 }
}

/// What a transport reports to the session that uses it, always in the transport's context.
public protocol MessageReceiver: AnyObject, Sendable {
    /// All messages from one read of the socket, together and in order.
    func received(_ messages: [ByteBuffer])

    /// The transport can take more, or should not be given more for now.
    func writabilityChanged(_ isWritable: Bool)

    /// This many bytes of an incomplete message are held for the peer. Called when the number matters, not for each byte.
    func holds(unfinishedBytes: Int)

    /// The connection has ended. Called exactly once, as the last call.
    func closed(_ end: ConnectionEnd)
}

extension MessageReceiver {
    public func holds(unfinishedBytes: Int) {}
}

/// How a connection ended.
public struct ConnectionEnd: Sendable, Equatable {
    /// The WebSocket close code (RFC 6455, section 7.4), 1006 when no CLOSE frame was received.
    public var code: UInt16
    /// The reason sent with the code, or the system's error.
    public var reason: String
    /// True if our side asked for the end.
    public var initiatedLocally: Bool

    public init(code: UInt16, reason: String, initiatedLocally: Bool) {
        self.code = code
        self.reason = reason
        self.initiatedLocally = initiatedLocally
    }

    /// Why the connection ended, for an operator: the reason that came with the code. A peer's codes whose meaning only protocols know are explained, so that
    /// what it says of limits and restarts is seen to be about the peer.
    public var sentence: String {
        let meaning: String? =
            switch code {
            case 1012: "the peer is restarting"
            case 1013: "the peer is overloaded"
            case 4001: "the peer asks to come back later"
            case 4002: "the peer ended the replication for good"
            default: nil
            }
        if let meaning, !initiatedLocally { return "\(meaning) (\(code))\(reason.isEmpty ? "" : ": \(reason)")" }
        return reason.isEmpty ? "the peer closed the connection (\(code))" : reason
    }
}

/// Opens connections for the active side of a replication.
public protocol TransportConnector: Sendable {
    /// Opens a connection to the remote database.
    ///
    /// - Throws: ``ReplicationError`` saying why the peer could not be reached or refused.
    func connect() async throws -> any MessageTransport

    /// The same for a target that leads to several remote databases.
    ///
    /// - Parameter remote: the remote database, as named by an earlier connection: only this one, since the new connection is in addition to that
    ///   one. Nil: any.
    func reach(_ remote: String?) async throws -> ReachedRemote
}

extension TransportConnector {
    public func reach(_ remote: String?) async throws -> ReachedRemote { ReachedRemote(transport: try await connect(), remote: nil) }
}

/// A connection, and the remote database that it leads to.
public struct ReachedRemote: Sendable {
    public var transport: any MessageTransport
    /// Distinguishes this remote database from others of the same target; nil if there are no others.
    public var remote: String?

    public init(transport: any MessageTransport, remote: String?) { (self.transport, self.remote) = (transport, remote) }
}
