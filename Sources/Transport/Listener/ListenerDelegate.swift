import HTTPServer
import Interfaces

/// What a ``WebSocketListener`` asks and reports to its owner.
public protocol ListenerDelegate: Sendable {
    /// Decides about a replication connection before it is upgraded. The task is cancelled if the peer disconnects.
    func authorize(_ request: UpgradeRequest) async -> UpgradeDecision

    /// A connection was upgraded. Called on the transport's event loop; `start` may be called there, immediately or later.
    func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?)

    /// Answers every other HTTP request; an ``HTTPError`` determines its own answer. The task is cancelled if the peer disconnects.
    func respond(to request: HTTPRequest) async throws -> HTTPResponse
}

extension ListenerDelegate {
    public func respond(to request: HTTPRequest) async throws -> HTTPResponse {
        throw HTTPError(404, "there is nothing at \(request.path)")
    }
}

/// A valid request for `…/DATABASE/_blipsync`, whose WebSocket handshake has been checked.
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
    /// The origin for limits: the address without its port; for IPv6, its /64 network.
    public var origin: String
    /// The tokens of `Sec-WebSocket-Protocol`, in the client's order.
    public var offeredProtocols: [String]
    /// The first offered token that the listener speaks.
    public var selectedProtocol: String
    /// From `Authorization: Basic`.
    public var basicCredentials: BasicCredentials?
    /// The identity established by the secure layer; nil without one.
    public var securePeer: SecurePeer?
    /// At a message endpoint: the other side's user according to the system, or to the configuration.
    public var endpointUser: String?

    /// From `Authorization: Bearer`.
    package var bearerToken: String? { WebSocketHandshake.bearerToken(headers) }
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
    /// Upgrade. If `protocol` is nil, ``UpgradeRequest/selectedProtocol`` is used; `context` is passed on to `accepted`.
    case accept(protocol: String? = nil, context: (any Sendable)? = nil)
    /// Refuse with an HTTP status; the body is `{"error": …, "reason": …}`.
    case refuse(status: Int, reason: String, headers: HeaderList = [:])
}
