import Interfaces
import NIOCore

/// Whether the transport keeps the boundaries of messages.
public enum ProtocolType: Sendable {
    /// It does: each `send` arrives as one `receive`. On the wire are the BLIP frames as they are, as with Couchbase Lite.
    case messageStream
    /// It moves bytes: the endpoint puts frames with lengths, checksums and sequence numbers around them and repeats what got lost.
    case byteStream
}

/// What went wrong in a transport, and whether another connection may do better.
public struct MessagingError: Error, Sendable, CustomStringConvertible {
    public var description: String
    /// The replicator tries again, with a new connection; otherwise it stops.
    public var isRecoverable: Bool
    /// The error in the terms of the field, where there is one more exact than the close codes 4001 and 4002.
    public var cause: ReplicationError?

    public init(_ description: String, isRecoverable: Bool, cause: ReplicationError? = nil) {
        self.description = description
        self.isRecoverable = isRecoverable
        self.cause = cause
    }

    /// 4001 is the field's close code for "come back later", 4002 for "do not".
    var closeCode: UInt16 { isRecoverable ? 4001 : 4002 }

    var replicationError: ReplicationError {
        var error = cause ?? ReplicationError(domain: .websocket, code: Int(closeCode), message: description)
        error.isTransient = isRecoverable
        return error
    }
}

/// One connection of an application's own transport. The application implements it, one object for each connection.
///
/// Its methods are called one at a time, in the context of the connection; completions may be called from any thread, at once or later.
public protocol MessageEndpointConnection: AnyObject, Sendable {
    /// Begins: what arrives is given to `connection` from now on. With success the connection is open; without, it is over.
    func open(_ connection: any ReplicatorConnection, completion: @escaping @Sendable (_ success: Bool, _ error: MessagingError?) -> Void)

    /// Ends: called exactly once, whoever began the end, unless `open` was never called.
    ///
    /// - Parameter error: why, if it is not the wish of either side.
    func close(error: MessagingError?, completion: @escaping @Sendable () -> Void)

    /// Sends one message, or some bytes of a stream; the completion says that the transport has taken them.
    func send(_ message: ByteBuffer, completion: @escaping @Sendable (_ success: Bool, _ error: MessagingError?) -> Void)

    /// Back-pressure: the replicator cannot take more for the moment, or can again. Transports that cannot wait leave it out.
    func setReading(_ enabled: Bool)

    /// The peer, for logs and status.
    var peerDescription: String { get }
}

extension MessageEndpointConnection {
    public func setReading(_ enabled: Bool) {}
    public var peerDescription: String { "endpoint" }
}

/// The replicator's end of a ``MessageEndpointConnection``: what an application's transport calls. Any thread.
public protocol ReplicatorConnection: AnyObject, Sendable {
    /// A message of the peer, or bytes of the stream. Calls must not overlap.
    func receive(_ data: ByteBuffer)

    /// The transport is to end, or has ended. The replicator calls ``MessageEndpointConnection/close(error:completion:)`` then.
    func close(error: MessagingError?)
}

extension ReplicatorConnection {
    public func receive(_ data: [UInt8]) { receive(ByteBuffer(bytes: data)) }
}

/// Makes a connection whenever the replicator connects or connects again.
public protocol MessageEndpointDelegate: Sendable {
    func createConnection(for endpoint: MessageEndpoint) throws -> any MessageEndpointConnection
}
