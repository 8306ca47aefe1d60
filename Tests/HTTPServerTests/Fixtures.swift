import Logging
import Environment
import NIOCore
import NIOPosix
import Synchronization

@testable import HTTPServer

let testGroup = MultiThreadedEventLoopGroup.singleton

extension HTTPLimits {
    /// Times that no busy machine reaches, for tests of other limits.
    static var patient: HTTPLimits {
        var limits = HTTPLimits()
        limits.headerTime = .hours(1)
        limits.idleHTTPTime = .hours(1)
        limits.bodyTime = .hours(1)
        limits.bodyIdleTime = .hours(1)
        limits.responseIdleTime = .hours(1)
        limits.lingerTime = .minutes(1)
        return limits
    }
}

/// Runs a listener on a free port of 127.0.0.1 for the length of a test.
func withServer<Result: Sendable>(
    limits: HTTPLimits = .patient, memory: MemoryBudget = .unlimited, _ respond: @escaping HTTPListener.Responder, _ body: (HTTPListener, Int) async throws -> Result
) async throws -> Result {
    var configuration = HTTPListener.Configuration()
    configuration.limits = limits
    configuration.memory = memory
    let address = try SocketAddress(ipAddress: "127.0.0.1", port: 0)
    let listener = try await HTTPListener.bind([.init(address)], configuration, group: testGroup, logger: quietLogger(), respond: respond)
    let port = listener.boundAddresses.first?.port ?? 0
    do {
        let result = try await body(listener, port)
        await listener.drain(within: .seconds(1))
        return result
    } catch {
        await listener.drain(within: .milliseconds(10))
        throw error
    }
}

func withRoutes<Result: Sendable>(
    _ routes: [Route], limits: HTTPLimits = .patient, memory: MemoryBudget = .unlimited, _ body: (HTTPListener, Int) async throws -> Result
) async throws -> Result {
    let router = Router(routes)
    return try await withServer(limits: limits, memory: memory, { try await router.respond(to: $0) }, body)
}

/// One connection of a client without any HTTP of its own, read on request.
final class RawClient: Sendable {
    private let channel: any Channel
    private let incoming: AsyncStream<ByteBuffer>
    private let rest = Mutex<[UInt8]>([])

    private final class Reader: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        let continuation: AsyncStream<ByteBuffer>.Continuation
        init(_ continuation: AsyncStream<ByteBuffer>.Continuation) { self.continuation = continuation }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { continuation.yield(unwrapInboundIn(data)) }
        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if case ChannelEvent.inputClosed? = event as? ChannelEvent { continuation.finish() }
        }
        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
        func channelInactive(context: ChannelHandlerContext) { continuation.finish() }
    }

    private init(_ channel: any Channel, _ incoming: AsyncStream<ByteBuffer>) {
        self.channel = channel
        self.incoming = incoming
    }

    /// - Parameter reads: false for a client that takes nothing until ``beginReading()``.
    static func connect(_ port: Int, from host: String? = nil, reads: Bool = true) async throws -> RawClient {
        try await connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: port), from: host, reads: reads)
    }

    static func connect(unix path: String) async throws -> RawClient {
        try await connect(to: try SocketAddress(unixDomainSocketPath: path), from: nil, reads: true)
    }

    private static func connect(to address: SocketAddress, from host: String?, reads: Bool) async throws -> RawClient {
        let (stream, continuation) = AsyncStream.makeStream(of: ByteBuffer.self)
        var bootstrap = ClientBootstrap(group: testGroup)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.autoRead, value: reads)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Reader(continuation)) }
            }
        if let host { bootstrap = bootstrap.bind(to: try SocketAddress(ipAddress: host, port: 0)) }
        return RawClient(try await bootstrap.connect(to: address).get(), stream)
    }

    func beginReading() { channel.setOption(.autoRead, value: true).whenComplete { _ in } }

    func send(_ text: String) async throws { try await channel.writeAndFlush(ByteBuffer(string: text)) }
    func send(_ bytes: ByteBuffer) async throws { try await channel.writeAndFlush(bytes) }

    /// What comes until the predicate is content with it, or the end.
    func read(until isEnough: ([UInt8]) -> Int?) async -> String {
        var bytes = rest.withLock { $0 }
        while true {
            if let count = isEnough(bytes) {
                rest.withLock { $0 = Array(bytes.dropFirst(count)) }
                return String(decoding: bytes.prefix(count), as: UTF8.self)
            }
            var iterator = incoming.makeAsyncIterator()
            guard let more = await iterator.next() else {
                rest.withLock { $0 = [] }
                return String(decoding: bytes, as: UTF8.self)
            }
            bytes += more.readableBytesView
        }
    }

    /// Up to and with the empty line behind a header.
    func readHeader() async -> String {
        await read { bytes in
            guard bytes.count >= 4 else { return nil }
            return (0...(bytes.count - 4)).first { bytes[$0..<($0 + 4)].elementsEqual("\r\n\r\n".utf8) }.map { $0 + 4 }
        }
    }

    func read(_ count: Int) async -> String { await read { $0.count >= count ? count : nil } }

    /// All that comes until the server closes.
    func readToEnd() async -> String { await read { _ in nil } }

    func close() async { try? await channel.close() }
}

/// Sends a request and reads until the server closes.
func exchange(_ port: Int, _ request: String) async throws -> String {
    let client = try await RawClient.connect(port)
    try await client.send(request)
    let answer = await client.readToEnd()
    await client.close()
    return answer
}

/// Something that a test lets happen, once.
final class Gate: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func open() { continuation.finish() }
    func wait() async { for await _ in stream {} }
}

/// Looks again and again until something is so; a test that fails here runs into its time limit.
func until(_ isSo: () -> Bool) async throws {
    while !isSo() { try await Task.sleep(for: .milliseconds(1)) }
}

func quietLogger() -> Logger { Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }) }
