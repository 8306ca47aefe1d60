import Interfaces
import NIOCore

/// Whether the transport preserves message boundaries.
public enum ProtocolType: Sendable {
    /// It does: each `send` arrives as one `receive`. BLIP frames are sent unchanged, as with Couchbase Lite.
    case messageStream
    /// It transfers bytes: the endpoint adds frames with lengths, checksums and sequence numbers, and retransmits what is lost.
    case byteStream
}

/// An error of a transport, and whether another connection may succeed.
public struct MessagingError: Error, Sendable, CustomStringConvertible {
    public var description: String
    /// Whether the replicator retries with a new connection; otherwise it stops.
    public var isRecoverable: Bool
    /// A more precise error than the close codes 4001 and 4002 express, if there is one.
    public var cause: ReplicationError?

    public init(_ description: String, isRecoverable: Bool, cause: ReplicationError? = nil) {
        self.description = description
        self.isRecoverable = isRecoverable
        self.cause = cause
    }

    /// Couchbase's close codes: 4001 means "come back later", 4002 "do not come back".
    var closeCode: UInt16 { isRecoverable ? 4001 : 4002 }

    var replicationError: ReplicationError {
        var error = cause ?? ReplicationError(domain: .websocket, code: Int(closeCode), message: description)
        error.isTransient = isRecoverable
        return error
    }
}

/// One connection of an application's own transport. Implemented by the application, with one object for each connection.
///
/// Its methods are called one at a time, in the context of the connection; completions may be called on any thread, immediately or later.
public protocol MessageEndpointConnection: AnyObject, Sendable {
    /// Opens the connection: from now on, received data is passed to `connection`. On failure, the connection is over.
    func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (_ success: Bool, _ error: MessagingError?) -> Void)

    /// Ends the connection: called exactly once, whichever side initiated the end, unless `open` was never called.
    ///
    /// - Parameter error: the reason, unless one of the sides requested the end.
    func close(error: MessagingError?, completion: @escaping @Sendable () -> Void)

    /// Sends one message, or some bytes of a stream; the completion says that the transport has taken them.
    func send(_ message: ByteBuffer, completion: @escaping @Sendable (_ success: Bool, _ error: MessagingError?) -> Void)

    /// Back-pressure: the replicator temporarily cannot take more, or can again. Transports that cannot pause may omit it.
    func setReading(_ enabled: Bool)

    /// The peer, for logs and status.
    var peerDescription: String { get }
}

extension MessageEndpointConnection {
    public func setReading(_ enabled: Bool) {}
    public var peerDescription: String { "endpoint" }
}

/// The replicator's side of a ``MessageEndpointConnection``, called by an application's transport. Any thread.
public protocol ReplicatorConnection: AnyObject, Sendable {
    /// A message from the peer, or bytes of the stream. Calls must not overlap.
    func receive(_ data: ByteBuffer)

    /// The transport should end, or has ended. The replicator then calls ``MessageEndpointConnection/close(error:completion:)``.
    func close(error: MessagingError?)
}

extension ReplicatorConnection {
    public func receive(_ data: [UInt8]) { receive(ByteBuffer(bytes: data)) }
}

/// Creates a connection each time the replicator connects.
public protocol MessageEndpointDelegate: Sendable {
    func createConnection(for endpoint: MessageEndpoint) throws -> any MessageEndpointConnection
}
