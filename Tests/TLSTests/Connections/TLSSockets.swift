import NIOCore
import NIOPosix
import Synchronization
import TestSupport

@testable import TLS

let tlsTestGroup = MultiThreadedEventLoopGroup.singleton

/// The plain side of a connection over a real socket: keeps or counts what comes, and echoes it if told so.
final class Tap: ChannelInboundHandler, @unchecked Sendable {
    // Unchecked: its own state is touched on the event loop only, the rest is behind the mutex.
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    struct State {
        var bytes: [UInt8] = []
        var count = 0
        var errors: [any Error] = []
        var completed: TLSHandshakeCompleted?
        var isInactive = false
        var writability: [Bool] = []
        var waiting: EventLoopPromise<Void>?
    }

    private let state = Mutex(State())
    let echoes: Bool
    let keeps: Bool

    init(echoes: Bool = false, keeps: Bool = true) {
        self.echoes = echoes
        self.keeps = keeps
    }

    var now: State { state.withLock { $0 } }
    var count: Int { state.withLock { $0.count } }
    var kinds: [TLSError.Kind] { now.errors.compactMap { ($0 as? TLSError)?.kind } }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let piece = unwrapInboundIn(data)
        state.withLock { state in
            state.count += piece.readableBytes
            if keeps { state.bytes += Array(piece.readableBytesView) }
        }
        if echoes { context.writeAndFlush(wrapOutboundOut(piece), promise: nil) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        let isWritable = context.channel.isWritable
        state.withLock { $0.writability.append(isWritable) }
        // The usual way to make a slow reader slow its peer.
        if echoes { context.channel.setOption(.autoRead, value: isWritable).whenFailure { _ in } }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard let event = event as? TLSHandshakeCompleted else { return }
        let waiting = state.withLock { state in
            state.completed = event
            return state.waiting
        }
        waiting?.succeed()
    }

    /// Keeps the promise at the end of the handshake.
    func whenCompleted(_ promise: EventLoopPromise<Void>) {
        let isCompleted = state.withLock { state in
            if state.completed == nil { state.waiting = promise }
            return state.completed != nil
        }
        if isCompleted { promise.succeed() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        state.withLock { $0.errors.append(error) }
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { state.withLock { $0.isInactive = true } }

    /// The end of the handshake, or why there was none.
    func outcome() async throws -> Result<TLSHandshakeCompleted, TLSError> {
        try await eventually("the handshake ends") {
            let now = self.now
            if let completed = now.completed { return .success(completed) }
            if let error = now.errors.lazy.compactMap({ $0 as? TLSError }).first { return .failure(error) }
            if now.isInactive { throw SupportError("the connection ended without a reason: \(now.errors)") }
            return nil
        }
    }
}

/// Connections of these tests come and go by the thousand; on an address of their own they never take a port that another
/// test has just given back.
let tlsTestHost = "127.0.0.2"

func tlsTestClient() throws -> ClientBootstrap {
    ClientBootstrap(group: tlsTestGroup).bind(to: try SocketAddress(ipAddress: tlsTestHost, port: 0))
}

/// A TLS server on a free port of ``tlsTestHost``.
final class TLSTestServer: Sendable {
    let channel: any Channel
    let context: CurrentContext
    private let taps: Taps
    var port: Int { channel.localAddress?.port ?? 0 }
    var accepted: [Tap] { taps.all.withLock { $0 } }

    private init(_ channel: any Channel, _ context: CurrentContext, _ taps: Taps) {
        self.channel = channel
        self.context = context
        self.taps = taps
    }

    private final class Taps: Sendable {
        let all = Mutex<[Tap]>([])
    }

    /// - Parameters:
    ///   - keeps: the bytes that come, and ``accepted``.
    ///   - onChild: told of every accepted channel and its handler.
    static func start(
        _ context: TLSContext, echoes: Bool = true, keeps: Bool = true, onChild: @escaping @Sendable (any Channel, TLSHandler) -> Void = { _, _ in }
    ) async throws -> TLSTestServer {
        let current = CurrentContext(context)
        let taps = Taps()
        let channel = try await ServerBootstrap(group: tlsTestGroup)
            .serverChannelOption(.backlog, value: 512)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try TLSHandler(server: current.value)
                    let tap = Tap(echoes: echoes, keeps: keeps)
                    if keeps { taps.all.withLock { $0.append(tap) } }
                    onChild(channel, handler)
                    try channel.pipeline.syncOperations.addHandlers([handler, tap])
                }
            }
            .bind(host: tlsTestHost, port: 0).get()
        return TLSTestServer(channel, current, taps)
    }

    func stop() async { try? await channel.close() }
}

/// Connects to a port of ``tlsTestHost``.
func connectTLS(
    _ port: Int, _ context: TLSContext, host: String = "localhost", keeps: Bool = true
) async throws -> (channel: any Channel, tap: Tap) {
    let tap = Tap(keeps: keeps)
    let channel = try await tlsTestClient()
        .channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                let handler = try TLSHandler(client: context, endpoint: TLSEndpoint(host: host, port: port))
                try channel.pipeline.syncOperations.addHandlers([handler, tap])
            }
        }
        .connect(host: tlsTestHost, port: port).get()
    return (channel, tap)
}

/// PEM files for the system's `openssl`.
struct PEMFiles {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    func write(_ name: String, _ certificates: [Certificate]) throws -> String {
        try folder.write(name, certificates.map(\.pem).joined())
        return folder.path(name)
    }

    func writeKey(_ name: String, _ key: PrivateKey) throws -> String {
        let text = try key.writePEM().withBytes { String(decoding: $0, as: UTF8.self) }
        try folder.write(name, text)
        return folder.path(name)
    }
}

/// Runs `openssl` with nothing, or a text, to read.
func openssl(_ arguments: [String], input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
    try await Subprocess.run("/usr/bin/env", ["openssl"] + arguments, input: input)
}
