import Environment
import NIOCore

/// One open connection that carries whole binary messages, usually a WebSocket.
///
/// The replication protocol is written against this seam, so that it runs unchanged over a socket, over a pipe and over
/// an in-memory network in a test. Everything marked "context only" must be called in ``executionContext``.
public protocol MessageTransport: AnyObject, Sendable {
    /// Where the receiver is called, and where the session of this connection runs.
    var executionContext: any SerialContext { get }

    /// False while the peer or the network takes less than we write. Context only.
    var isWritable: Bool { get }

    /// Bytes written that the peer or the network has not taken, as far as they lie here. Context only.
    var waitingBytes: Int { get }

    /// Begins delivery. Context only, once; messages that arrived before are kept and delivered first.
    func start(_ receiver: any MessageReceiver)

    /// Sends each buffer as one binary message and flushes once. Context only.
    func write(_ messages: [ByteBuffer])

    /// Back-pressure: stops or resumes reading from the peer. Context only.
    func setReading(_ enabled: Bool)

    /// Closes with a WebSocket close code and waits a bounded time for the peer's answer. Any thread.
    func close(code: UInt16, reason: String)

    /// Ends the connection without a CLOSE frame; the peer sees 1006. Any thread.
    func drop()

    /// The peer's address, for logs and status.
    var peerDescription: String { get }

    /// What both sides call this connection in their logs (``CorrelationID``); nil where nothing of the kind was said.
    var correlationID: String? { get }

    /// The replication protocol that was agreed on; nil for the one that is spoken where nothing is said.
    var subprotocol: Subprotocol? { get }

    /// The peer is one of our own kind: it names revisions by their versions and by their ids.
    var peerHasBothNames: Bool { get }
}

extension MessageTransport {
    public var correlationID: String? { nil }

    public var subprotocol: Subprotocol? { nil }

    public var peerHasBothNames: Bool { false }

    /// For transports whose bytes lie elsewhere, or are counted there.
    public var waitingBytes: Int { 0 }
}

/// What a transport tells the session that uses it, always in the transport's context.
public protocol MessageReceiver: AnyObject, Sendable {
    /// All messages of one read from the socket, together and in order.
    func received(_ messages: [ByteBuffer])

    /// The transport can take more, or should get no more for now.
    func writabilityChanged(_ isWritable: Bool)

    /// So many bytes of a message that is not complete are held for the peer. Told when it matters, not for each byte.
    func holds(unfinishedBytes: Int)

    /// The connection is over. Called exactly once, as the last call.
    func closed(_ end: ConnectionEnd)
}

extension MessageReceiver {
    public func holds(unfinishedBytes: Int) {}
}

/// How a connection ended.
public struct ConnectionEnd: Sendable, Equatable {
    /// The WebSocket close code (RFC 6455, section 7.4), 1006 when no CLOSE frame was received.
    public var code: UInt16
    /// The reason that came with the code, or what the system said.
    public var reason: String
    /// True if our side asked for the end.
    public var initiatedLocally: Bool

    public init(code: UInt16, reason: String, initiatedLocally: Bool) {
        self.code = code
        self.reason = reason
        self.initiatedLocally = initiatedLocally
    }
}

/// Makes connections for the active side of a replication.
public protocol TransportConnector: Sendable {
    /// Opens a connection to the remote database.
    ///
    /// - Throws: ``ReplicationError`` that says why the peer could not be reached or refused.
    func connect() async throws -> any MessageTransport
}
