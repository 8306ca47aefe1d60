import NIOCore
import NIOPosix
import TLS

/// Complete TLS 1.3 handshakes per second, one after another on loopback, each on its own connection: this project's client and listener
/// handlers compared with OpenSSL's own tools.
///
/// Both have one thread for the client and one for the server, the same certificate and the library's default tickets. The tool verifies
/// nothing; our client checks the pinned certificate, as replicators do.
struct HandshakesScenario {
    static let openSSLPath = "/usr/bin/openssl"

    /// For each measurement.
    var seconds = 3
    var rounds = 5
    var openssl = HandshakesScenario.openSSLPath

    func run(_ scratch: Scratch) async throws -> Report {
        let identity = try BenchIdentity(folder: scratch.path)
        let server = try OpenSSLServer(openssl, identity)
        defer { server.stop() }
        var tool: [Double] = []
        var full: [Double] = []
        var resumed: [Double] = []
        for _ in 0..<rounds {
            tool.append(try server.handshakesPerSecond(seconds: seconds))
            full.append(try await Handshakes(identity, resumes: false).perSecond(seconds: seconds))
            resumed.append(try await Handshakes(identity, resumes: true).perSecond(seconds: seconds))
        }
        var report = Report(scenario: "handshakes", title: "TLS 1.3 handshakes one after the other on loopback, P-256, X25519")
        report.add("openssl s_time -new, s_server", "/s", tool)
        report.add("full", "/s", full)
        report.add("resumed, until the first byte of the server", "/s", resumed)
        report.goal("full / openssl", "", zip(tool, full).map { $1 / $0 }, .atLeast, 0.6)
        report.notes.append(machineLoad())
        return report
    }
}

/// One thread that connects and one that accepts.
private struct Handshakes {
    let identity: BenchIdentity
    /// Whether to resume the last session; the server then sends a byte, after which its tickets have arrived.
    let resumes: Bool

    init(_ identity: BenchIdentity, resumes: Bool) {
        self.identity = identity
        self.resumes = resumes
    }

    func perSecond(seconds: Int) async throws -> Double {
        let servers = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let clients = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let (serverContext, greets) = (try identity.serverContext(), resumes)
        let server = try await ServerBootstrap(group: servers)
            .serverChannelOption(.backlog, value: 512)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([TLSHandler(server: serverContext), ServerSide(greets: greets)])
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        guard let address = server.localAddress, let port = address.port else { throw BenchError("a listener without an address") }
        let context = try identity.clientContext(resumes: resumes)
        let loop = clients.next()
        let run = loop.makePromise(of: (count: Int, seconds: Double).self)
        let mustResume = resumes
        loop.execute {
            ClientLoop(
                context, TLSEndpoint(host: "127.0.0.1", port: port), address, loop, seconds: Double(seconds), resumes: mustResume, result: run
            ).next()
        }
        let outcome = try await run.futureResult.get()
        try await server.close()
        try await clients.shutdownGracefully()
        try await servers.shutdownGracefully()
        return Double(outcome.count) / outcome.seconds
    }
}

/// The server's handler above its TLS handler.
private final class ServerSide: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let greets: Bool

    init(greets: Bool) { self.greets = greets }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard greets, event is TLSHandshakeCompleted else { return }
        context.writeAndFlush(wrapOutboundOut(context.channel.allocator.buffer(string: "!")), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Connects, waits for the end of the handshake, closes and starts over. Confined to one event loop.
private final class ClientLoop {
    private let context: TLSContext
    private let endpoint: TLSEndpoint
    private let address: SocketAddress
    private let loop: any EventLoop
    private let start = Stopwatch()
    private let seconds: Double
    private let resumes: Bool
    private let result: EventLoopPromise<(count: Int, seconds: Double)>
    private var count = 0

    init(
        _ context: TLSContext, _ endpoint: TLSEndpoint, _ address: SocketAddress, _ loop: any EventLoop, seconds: Double, resumes: Bool,
        result: EventLoopPromise<(count: Int, seconds: Double)>
    ) {
        self.context = context
        self.endpoint = endpoint
        self.address = address
        self.loop = loop
        self.seconds = seconds
        self.resumes = resumes
        self.result = result
    }

    func next() {
        let box = NIOLoopBound(self, eventLoop: loop)
        ClientBootstrap(group: loop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let this = box.value
                    try channel.pipeline.syncOperations.addHandlers([
                        TLSHandler(client: this.context, endpoint: this.endpoint), ClientSide(this),
                    ])
                }
            }
            .connect(to: address).whenFailure { error in box.value.result.fail(error) }
    }

    /// - Parameter isResumed: whether this handshake resumed a session.
    func completed(isResumed: Bool) {
        count += 1
        let passed = start.cost.seconds
        if passed >= seconds { return result.succeed((count, passed)) }
        // The first handshake has no session to resume.
        if isResumed != (resumes && count > 1) {
            return result.fail(BenchError("handshake \(count) was \(isResumed ? "a resumed" : "a full") one"))
        }
        next()
    }

    func failed(_ error: any Error) { result.fail(error) }

    private final class ClientSide: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let owner: ClientLoop
        private var isResumed: Bool?

        init(_ owner: ClientLoop) { self.owner = owner }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            guard let completed = event as? TLSHandshakeCompleted else { return }
            isResumed = completed.isResumed
            if !owner.resumes { done(context) }
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) { done(context) }

        private func done(_ context: ChannelHandlerContext) {
            guard let isResumed else { return }
            self.isResumed = nil
            context.close(promise: nil)
            owner.completed(isResumed: isResumed)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            owner.failed(error)
            context.close(promise: nil)
        }
    }
}
