import Environment
import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// One try to open a WebSocket at one address: name resolution, TCP, secure layer and upgrade under one deadline.
struct ConnectionAttempt: Sendable {
    enum Outcome: Sendable {
        case upgraded(WebSocketConnection)
        case response(HandshakeResponse)
    }

    let url: EndpointURL
    let request: HTTPRequestHead
    let configuration: WebSocketClient.Configuration
    let deadline: NIODeadline
    let eventLoop: any EventLoop
    /// For the keys that mask frames.
    let random: any RandomSource

    /// The channel of this try, so that the deadline and a cancelled task can close it.
    private final class Cancellation: Sendable {
        private let state: Mutex<(channel: (any Channel)?, isCancelled: Bool)> = Mutex((nil, false))

        func hold(_ channel: any Channel) {
            let isCancelled = state.withLock { state in
                state.channel = channel
                return state.isCancelled
            }
            if isCancelled { channel.close(promise: nil) }
        }

        func cancel() {
            let channel = state.withLock { state in
                state.isCancelled = true
                return state.channel
            }
            channel?.close(promise: nil)
        }
    }

    func run() async throws -> Outcome {
        // Who does not answer is the proxy, where there is one.
        let target = configuration.proxy.map { "\($0)" } ?? "\(url)"
        guard !url.isSecure || configuration.secureLayer != nil else {
            throw ReplicationError(domain: .tls, code: 6, message: "\(url): no TLS is configured for \(url.scheme):")
        }
        let first = configuration.proxy.map { ($0.host, $0.port) } ?? (url.host, url.port)
        let local = try configuration.networkInterface.map { try InterfaceBinding.localAddress(of: $0, toReach: first.0) }
        let remaining = max(deadline - .now(), .milliseconds(1))
        let promise = eventLoop.makePromise(of: Outcome.self)
        let cancellation = Cancellation()
        let limits = configuration.limits
        let timer = eventLoop.scheduleTask(in: remaining) {
            promise.fail(
                ReplicationError(
                    network: .timeout,
                    message: "\(url)\(configuration.proxy.map { " through \($0)" } ?? ""): no connection within \(limits.connectTime.nanoseconds / 1_000_000) ms (connect_time)"))
            cancellation.cancel()
        }
        var bootstrap = ClientBootstrap(group: eventLoop)
            .resolver(SystemResolver(eventLoop: eventLoop, family: local?.protocol))
            // Our own timer covers the upgrade as well and must be the one that reports.
            .connectTimeout(remaining + .seconds(1))
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.tcpUserTimeout, value: Int(limits.unacknowledgedTime.nanoseconds / 1_000_000))
            // Nothing is read, and no failure of TLS lost, before the handlers that wait for it are there.
            .channelOption(.autoRead, value: false)
            .channelOption(.writeBufferWaterMark, value: .init(low: limits.writeLowWatermark, high: limits.writeHighWatermark))
            .channelOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: 65_536))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { if configuration.proxy == nil { try addSecureLayer(channel) } }.flatMap { InterfaceBinding.bind(channel, to: configuration.networkInterface) }
            }
        if let local { bootstrap = bootstrap.bind(to: local) }
        bootstrap.connect(host: first.0, port: first.1).whenComplete { result in
            switch result {
            case .success(let channel):
                cancellation.hold(channel)
                do {
                    try begin(channel, promise)
                    try channel.syncOptions?.setOption(.autoRead, value: true)
                } catch {
                    promise.fail(NetworkErrors.replicationError(error, target: target))
                    channel.close(promise: nil)
                }
            case .failure(let error):
                var failure = NetworkErrors.replicationError(error, target: target)
                if failure.domain == .network, failure.code == ReplicationError.NetworkCode.addressNotAvailable.rawValue,
                    let interface = configuration.networkInterface
                {
                    failure.message += " (network_interface \(interface))"
                }
                promise.fail(failure)
            }
        }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        return try await withTaskCancellationHandler {
            try await promise.futureResult.get()
        } onCancel: {
            eventLoop.execute { promise.fail(CancellationError()) }
            cancellation.cancel()
        }
    }

    /// What is said first: to the remote, or to the proxy on the way.
    private func begin(_ channel: any Channel, _ promise: EventLoopPromise<Outcome>) throws {
        guard let proxy = configuration.proxy else { return try addHandshake(channel, promise) }
        let negotiation = proxy.negotiation(
            to: url.host, url.port, userAgent: configuration.userAgent, limit: configuration.limits.http.headerBytes)
        let handler = ProxyHandler(negotiation, proxy: proxy, connected: { channel in
            try addSecureLayer(channel)
            try addHandshake(channel, promise)
        }, failed: { promise.fail($0) })
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// The pipeline of every outgoing connection begins with the secure layer, or with what notices that one is wanted.
    private func addSecureLayer(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        guard url.isSecure, let secureLayer = configuration.secureLayer else {
            return try pipeline.addHandler(ClearTextGuard(error: .speaksTLS(url)))
        }
        try pipeline.addHandlers(secureLayer.makeHandlers(.client(host: url.host, port: url.port)))
    }

    private func addHandshake(_ channel: any Channel, _ promise: EventLoopPromise<Outcome>) throws {
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandler(HTTPRequestEncoder())
        let decoder = HTTPResponseDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: configuration.limits.http.decoder)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        try pipeline.addHandler(ClientHandshakeHandler(attempt: self, promise: promise))
    }
}
