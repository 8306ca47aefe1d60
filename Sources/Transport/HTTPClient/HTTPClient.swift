import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// A small HTTP/1.1 client, one connection a request: for the command line to talk to the admin socket, and for databases of CouchDB.
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
        /// Written piece by piece at the server's pace. Without a length it is sent in chunks.
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
    /// For TCP, resolution and connection.
    public var connectTime: TimeAmount = .seconds(5)
    public var limits = TransportLimits()
    /// TLS; nil for plain HTTP.
    public var secureLayer: SecureLayer?
    /// The longest time in which nothing is read or written; nil: no bound.
    public var patience: TimeAmount?
    /// A network interface's name or an address of this machine to connect from.
    public var networkInterface: String?
    /// The proxy that TCP connections are made through.
    public var proxy: ProxyServer?
    /// Told of the server that TLS has accepted, for each request.
    public var onSecurePeer: (@Sendable (SecurePeer) -> Void)?
    let group: any EventLoopGroup

    public init(_ target: Target, group: any EventLoopGroup) {
        self.target = target
        self.group = group
    }

    /// Sends a request and collects the response.
    ///
    /// - Parameters:
    ///   - timeout: for everything; nil for none.
    ///   - maximumBody: bytes of the response's body, an error above it.
    /// - Throws: ``ReplicationError`` of the network domain, or what a body's producer threw. Every status is a response.
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

    /// Sends a request and passes the response's body on as it comes. The connection ends with the closure.
    ///
    /// - Parameter timeout: for everything, the closure included; nil for none.
    public func stream<Result: Sendable>(
        _ method: String, _ uri: String, headers: HeaderList = [:], body: RequestBody = .none, timeout: TimeAmount? = nil,
        _ handle: (ResponseHead, ResponseBody) async throws -> Result
    ) async throws -> Result {
        let head = try requestHead(method, uri, headers, body)
        let where_ = "\(target)"
        let failure = Failure()
        let ready = Ready()
        let channel: NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>
        do {
            channel = try await connect(head, ready, failure)
        } catch {
            throw connectionError(error)
        }
        let timer = timeout.map { timeout in
            channel.channel.eventLoop.scheduleTask(in: timeout) {
                failure.set(
                    ReplicationError(
                        network: .timeout,
                        message: "\(where_): no complete answer to \(method) \(uri) within \(timeout.nanoseconds / 1_000_000) ms"))
                channel.channel.close(promise: nil)
            }
        }
        defer { timer?.cancel() }
        do {
            return try await channel.executeThenClose { inbound, outbound in
                try await withThrowingTaskGroup(of: Void.self) { tasks in
                    tasks.addTask { await Self.send(head, body, outbound, channel.channel, failure, ready) }
                    var parts = inbound.makeAsyncIterator()
                    guard case .head(let answer)? = try await parts.next() else {
                        throw ReplicationError(network: .connectionReset, message: "\(where_): the peer closed the connection before its HTTP answer")
                    }
                    let list = HeaderList(answer.headers.map { (name: $0.name, value: $0.value) })
                    let result = try await handle(ResponseHead(status: Int(answer.status.code), headers: list), ResponseBody(parts, target: where_))
                    if let error = failure.error { throw error }
                    tasks.cancelAll()
                    return result
                }
            }
        } catch {
            if let first = failure.error { throw first }
            if Task.isCancelled { throw CancellationError() }
            switch error {
            case is IOError, is ChannelError: throw NetworkErrors.replicationError(error, target: where_)
            case is HTTPParserError, is NIOHTTPDecoderError:
                throw ReplicationError(network: .connectionReset, message: "\(where_): the answer is cut short or no HTTP/1.1 (\(error))")
            default: throw error
            }
        }
    }

    private func requestHead(_ method: String, _ uri: String, _ headers: HeaderList, _ body: RequestBody) throws -> HTTPRequestHead {
        var fields = HTTPHeaders()
        switch target {
        case .unix: fields.add(name: "Host", value: "localhost")
        case .tcp(let host, let port): fields.add(name: "Host", value: "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)")
        }
        for field in headers { fields.replaceOrAdd(name: field.name, value: field.value) }
        fields.replaceOrAdd(name: "Connection", value: "close")
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

    /// A connection that breaks while we write is not an error here: the server may have answered early, and the reading
    /// side finds out. What the producer throws is.
    private static func send(
        _ head: HTTPRequestHead, _ body: RequestBody, _ outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>,
        _ channel: any Channel, _ failure: Failure,
        _ ready: Ready
    ) async {
        do {
            let writer = BodyWriter(outbound: outbound)
            try await writer.send(.head(head))
            // What is written before TLS is ready gathers in memory, without the channel noticing.
            if case .none = body {} else { try await ready.wait() }
            switch body {
            case .none: break
            case .buffer(let buffer): try await writer.write(buffer)
            case .stream(_, let produce): try await produce(writer)
            }
            try await writer.send(.end(nil))
        } catch is BodyWriter.Disconnected {
        } catch is CancellationError {
        } catch {
            failure.set(error)
            channel.close(promise: nil)
        }
    }

    /// The first error that explains why a connection was closed from our side.
    final class Failure: Sendable {
        private let value: Mutex<(any Error)?> = Mutex(nil)
        var error: (any Error)? { value.withLock { $0 } }

        func set(_ error: any Error) {
            value.withLock { $0 = $0 ?? error }
        }
    }
}

extension HTTPClient {
    /// Writes a streamed request body.
    public struct BodyWriter: Sendable {
        struct Disconnected: Error {}

        let outbound: NIOAsyncChannelOutboundWriter<HTTPClientRequestPart>

        /// Sends one piece; returns when the connection can take more.
        ///
        /// - Throws: if the server is gone or has answered already; let it through.
        public func write(_ piece: ByteBuffer) async throws {
            guard piece.readableBytes > 0 else { return }
            try await send(.body(.byteBuffer(piece)))
        }

        func send(_ part: HTTPClientRequestPart) async throws {
            do {
                try await outbound.write(part)
            } catch is CancellationError {
                throw CancellationError()
            } catch {
                throw Disconnected()
            }
        }
    }

    /// A response's body as it comes; to be read by one task, once.
    public final class ResponseBody: AsyncSequence {
        public typealias Element = ByteBuffer

        private var parts: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator
        private let target: String
        private var isComplete = false

        init(_ parts: NIOAsyncChannelInboundStream<HTTPClientResponsePart>.AsyncIterator, target: String) {
            self.parts = parts
            self.target = target
        }

        /// The next piece, nil at the end.
        ///
        /// - Throws: if the connection breaks before the end.
        public func next() async throws -> ByteBuffer? {
            while !isComplete {
                switch try await parts.next() {
                case .body(let piece): return piece
                case .end: isComplete = true
                case .head: continue
                case nil: throw ReplicationError(network: .connectionReset, message: "\(target): the connection broke before the end of the answer")
                }
            }
            return nil
        }

        public struct AsyncIterator: AsyncIteratorProtocol {
            let body: ResponseBody

            public mutating func next() async throws -> ByteBuffer? { try await body.next() }
        }

        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(body: self) }
    }
}
