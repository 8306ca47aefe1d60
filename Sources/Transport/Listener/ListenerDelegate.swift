import Interfaces
import NIOCore

/// What a ``WebSocketListener`` asks and tells its owner.
public protocol ListenerDelegate: Sendable {
    /// Decides on a replication connection before it is upgraded. The task is cancelled if the peer goes away.
    func authorize(_ request: UpgradeRequest) async -> UpgradeDecision

    /// A connection was upgraded. Called on the transport's event loop; `start` may be called at once or later from there.
    func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?)

    /// Answers every other HTTP request. The task is cancelled if the peer goes away.
    func respond(to request: ListenerRequest) async -> ListenerResponse
}

extension ListenerDelegate {
    public func respond(to request: ListenerRequest) async -> ListenerResponse {
        .error(status: 404, error: "not_found", reason: "there is nothing at \(request.path)")
    }
}

/// A well-formed request for `…/DATABASE/_blipsync`, whose WebSocket handshake was checked.
public struct UpgradeRequest: Sendable {
    /// The path component before `_blipsync`, percent-decoded.
    public var database: String
    /// The path as sent, without the query.
    public var path: String
    /// The query as sent, without the question mark.
    public var query: String?
    public var headers: HeaderList
    /// The peer's address and port, for logs and authenticators.
    public var remoteAddress: String
    /// Whose limits it counts for: the address without its port, of IPv6 its /64 network.
    public var origin: String
    /// The tokens of `Sec-WebSocket-Protocol`, in the client's order.
    public var offeredProtocols: [String]
    /// The first offered token that the listener speaks.
    public var selectedProtocol: String
    /// From `Authorization: Basic`.
    public var basicCredentials: BasicCredentials?
    /// Who is behind the secure layer; nil without one.
    public var securePeer: SecurePeer?
}

/// User name and password of HTTP's Basic scheme (RFC 7617).
public struct BasicCredentials: Sendable, Equatable {
    public var username: String
    public var password: String

    public init(username: String, password: String) {
        self.username = username
        self.password = password
    }
}

/// The answer to an ``UpgradeRequest``.
public enum UpgradeDecision: Sendable {
    /// Upgrade. `protocol` nil takes ``UpgradeRequest/selectedProtocol``; `context` comes back in `accepted`.
    case accept(protocol: String? = nil, context: (any Sendable)? = nil)
    /// Refuse with an HTTP status; the body is `{"error": …, "reason": …}`.
    case refuse(status: Int, reason: String, headers: HeaderList = [:])
}

/// An HTTP request that is no replication connection.
public struct ListenerRequest: Sendable {
    public var method: String
    /// The request target as sent: path and query.
    public var uri: String
    public var headers: HeaderList
    /// The whole body, at most `body_bytes`.
    public var body: ByteBuffer
    public var remoteAddress: String
    public var basicCredentials: BasicCredentials?
    public var securePeer: SecurePeer?

    /// The path as sent, without the query.
    public var path: String { RequestTarget.split(uri).path }
    /// The query as sent, without the question mark.
    public var query: String? { RequestTarget.split(uri).query }
}

/// An HTTP response of a listener. `Content-Length` or chunking and `Connection` are added by the listener.
public struct ListenerResponse: Sendable {
    public enum Body: Sendable {
        case buffer(ByteBuffer)
        /// Written piece by piece; each `write` returns when the piece went to the socket. If the closure throws, the
        /// connection is cut, so that the client does not take the part for the whole.
        case stream(@Sendable (ResponseBodyWriter) async throws -> Void)
    }

    public var status: Int
    public var headers: HeaderList
    public var body: Body

    public init(status: Int, headers: HeaderList = [:], body: Body = .buffer(ByteBuffer())) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// JSON text as body.
    public static func json(status: Int = 200, _ text: String, headers: HeaderList = [:]) -> ListenerResponse {
        var headers = headers
        headers.set("Content-Type", "application/json")
        return ListenerResponse(status: status, headers: headers, body: .buffer(ByteBuffer(string: text)))
    }

    /// The shape of CouchDB's errors: `{"error": …, "reason": …}`.
    public static func error(status: Int, error: String, reason: String, headers: HeaderList = [:]) -> ListenerResponse {
        json(status: status, "{\"error\":\(JSONText.quoted(error)),\"reason\":\(JSONText.quoted(reason))}\n", headers: headers)
    }
}
