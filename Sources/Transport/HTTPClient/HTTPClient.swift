import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix

/// A small HTTP/1.1 client: with one connection per request, as commands use for the admin socket, or with kept connections.
public struct HTTPClient: Sendable {
    public enum Target: Sendable, Equatable, CustomStringConvertible {
        /// A unix domain socket's path.
        case unix(path: String)
        case tcp(host: String, port: Int)

        public var description: String {
            switch self {
            case .unix(let path): path
            case .tcp(let host, let port): "\(host):\(port)"
            }
        }
    }

    public enum RequestBody: Sendable {
        case none
        case buffer(ByteBuffer)
        /// Written piece by piece at the server's pace. Without a length it is sent chunked.
        case stream(length: Int? = nil, @Sendable (BodyWriter) async throws -> Void)
    }

    public struct Response: Sendable {
        public var status: Int
        public var headers: HeaderList
        public var body: ByteBuffer
    }

    public struct ResponseHead: Sendable {
        public var status: Int
        public var headers: HeaderList
    }

    public var target: Target
    /// For name resolution, connecting and the proxy handshake.
    public var connectTime: TimeAmount = .seconds(5)
    public var limits = TransportLimits()
    /// TLS; nil for plain HTTP.
    public var secureLayer: SecureLayer?
    /// The longest time in which nothing is read or written although we are waiting; nil for no limit.
    public var patience: TimeAmount?
    /// The minimum pace for reading and writing, so that a peer that sends a byte now and then cannot hold a request forever; nil for no limit.
    var pace: Pace?
    /// A network interface's name or an address of this machine to connect from.
    public var networkInterface: String?
    /// The bandwidth limit for all its connections together; nil for none.
    var bandwidth: Bandwidth?
    /// The proxy that connections are made through.
    public var proxy: ProxyServer?
    /// Idle connections to be reused, to which connections return; nil for one connection per request.
    var kept: KeptConnections?
    /// Called with the peer's identity, once for every connection with a secure layer.
    package var onSecured: (@Sendable (SecurePeer) -> Void)?
    /// Replaces the system's name resolution.
    var resolver: (@Sendable (any EventLoop) -> any Resolver & Sendable)?
    let group: any EventLoopGroup

    struct Pace: Sendable {
        /// `portion_bytes`.
        var bytes = 16 << 10
        /// `portion_time`: for each such portion, while the data is being read. Slow radio links transfer that much in a minute.
        var time = TimeAmount.minutes(5)
    }

    /// When a request must be complete.
    struct Deadline: Sendable {
        var time: NIODeadline
        /// The error if it is not.
        var error: ReplicationError
    }

    public init(_ target: Target, group: any EventLoopGroup) {
        self.target = target
        self.group = group
    }

    /// Sends a request and collects the response.
    ///
    /// - Parameters:
    ///   - timeout: for everything, including connecting; nil for none.
    ///   - maximumBody: maximum size of the response's body; more is an error.
    /// - Throws: ``ReplicationError`` in the network domain, or the body producer's error. Any status counts as a response.
    public func request(
        _ method: String, _ uri: String, headers: HeaderList = [:], body: RequestBody = .none, timeout: TimeAmount? = .seconds(30),
        maximumBody: Int = 64 * 1024 * 1024
    ) async throws -> Response {
        let target = target
        return try await stream(method, uri, headers: headers, body: body, timeout: timeout) { head, pieces in
            var body = ByteBuffer()
            while let piece = try await pieces.next() {
                guard body.readableBytes + piece.readableBytes <= maximumBody else {
                    throw ReplicationError(network: .aborted, message: "\(target)\(uri): the answer has more than \(maximumBody) bytes (maximumBody)")
                }
                body.writeImmutableBuffer(piece)
            }
            return Response(status: head.status, headers: head.headers, body: body)
        }
    }

    /// Sends a request and passes the response's body on as it arrives. The connection ends with the closure, unless it is kept.
    ///
    /// A server may close an idle connection at any time. A request that meets this is sent once more, over a new connection: requests over kept
    /// connections have to be repeatable, and a streamed body is produced again.
    ///
    /// - Parameter timeout: for everything, including connecting and the closure; nil for none.
    public func stream<Result: Sendable>(
        _ method: String, _ uri: String, headers: HeaderList = [:], body: RequestBody = .none, timeout: TimeAmount? = nil,
        _ handle: (ResponseHead, ResponseBody) async throws -> Result
    ) async throws -> Result {
        let head = try requestHead(method, uri, headers, body)
        let deadline = timeout.map { timeout in
            Deadline(
                time: .now() + timeout,
                error: ReplicationError(
                    network: .timeout, message: "\(target): no complete answer to \(method) \(uri) within \(timeout.nanoseconds / 1_000_000) ms"))
        }
        if let connection = kept?.take() {
            do { return try await stream(head, body, over: connection, deadline, isFresh: false, handle) } catch is ClientConnection.ClosedWhileIdle {}
        }
        return try await stream(head, body, over: ClientConnection.open(self, deadline), deadline, isFresh: true, handle)
    }

    private func stream<Result: Sendable>(
        _ head: HTTPRequestHead, _ body: RequestBody, over connection: ClientConnection, _ deadline: Deadline?, isFresh: Bool,
        _ handle: (ResponseHead, ResponseBody) async throws -> Result
    ) async throws -> Result {
        do {
            let (result, isReusable) = try await connection.carry(head, body, deadline, patience: patience, pace: pace, isFresh: isFresh, handle)
            if isReusable, let kept { kept.give(connection) } else { connection.close() }
            return result
        } catch {
            connection.close()
            throw error
        }
    }

    private func requestHead(_ method: String, _ uri: String, _ headers: HeaderList, _ body: RequestBody) throws -> HTTPRequestHead {
        var fields = HTTPHeaders()
        switch target {
        case .unix: fields.add(name: "Host", value: "localhost")
        case .tcp(let host, let port): fields.add(name: "Host", value: "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)")
        }
        for field in headers { fields.replaceOrAdd(name: field.name, value: field.value) }
        // Redundant in HTTP/1.1, but some HTTP/1.0 servers need it.
        fields.replaceOrAdd(name: "Connection", value: kept == nil ? "close" : "keep-alive")
        fields.remove(name: "Content-Length")
        fields.remove(name: "Transfer-Encoding")
        switch body {
        case .none: if !["GET", "HEAD", "DELETE"].contains(method) { fields.add(name: "Content-Length", value: "0") }
        case .buffer(let buffer): fields.add(name: "Content-Length", value: "\(buffer.readableBytes)")
        case .stream(let length?, _): fields.add(name: "Content-Length", value: "\(length)")
        case .stream(nil, _): fields.add(name: "Transfer-Encoding", value: "chunked")
        }
        let isSound = uri.utf8.first == UInt8(ascii: "/") && uri.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard isSound, HeaderList.isSendable(method, ""), fields.allSatisfy({ HeaderList.isSendable($0.name, $0.value) }) else {
            throw ReplicationError(
                domain: .http, code: 400,
                message: "\(method) \(uri): the method, the path or a header has a character that cannot be sent; percent-encode paths")
        }
        return HTTPRequestHead(version: .http1_1, method: HTTPMethod(rawValue: method), uri: uri, headers: fields)
    }
}
