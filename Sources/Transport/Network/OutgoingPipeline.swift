import HTTPServer
import Interfaces
import NIOCore
import NIOPosix
import Synchronization

/// The beginning of every outgoing connection, whatever protocol is used over it: name resolution, the network interface, TCP, the proxy handshake,
/// TLS.
struct OutgoingPipeline: Sendable {
    var target: HTTPClient.Target
    /// The target as the operator wrote it, for errors.
    var shown: String
    var proxy: ProxyServer?
    /// A network interface's name or an address of this machine to connect from.
    var networkInterface: String?
    /// The connection's bandwidth limit; nil for none.
    var bandwidth: Bandwidth?
    /// Nil for clear text.
    var secureLayer: SecureLayer?
    /// The error for a clear-text connection if the other side speaks TLS.
    var speaksTLS: ReplicationError
    var userAgent = "nightjar"
    var limits = TransportLimits()
    /// The promise must be completed by then.
    var deadline: NIODeadline
    /// The error if it is not.
    var late: ReplicationError
    /// The error instead of that if the other side had accepted the connection; nil if that makes no difference.
    var silent: ReplicationError?
    /// Replaces the system's name resolution.
    var resolver: (@Sendable (any EventLoop) -> any Resolver & Sendable)?

    /// The connection that won, so that it can be closed when the attempt is abandoned. Everything that accesses this runs on the event loop, except
    /// for a cancelled task.
    private final class Attempt: Sendable {
        private let state: Mutex<(channel: (any Channel)?, isOver: Bool)> = Mutex((nil, false))

        /// Returns false if it came too late.
        func hold(_ channel: any Channel) -> Bool {
            state.withLock { state in
                guard !state.isOver else { return false }
                state.channel = channel
                return true
            }
        }

        var isAccepted: Bool { state.withLock { $0.channel != nil } }

        func end() -> (any Channel)? {
            state.withLock { state in
                state.isOver = true
                defer { state.channel = nil }
                return state.channel
            }
        }
    }

    /// Connects, and lets `begin` add its handlers after TLS and complete the promise, immediately or later. If the promise fails or the task is
    /// cancelled, the connection is closed.
    ///
    /// Several addresses of a name may be tried concurrently, each with its own channel, and all but one are discarded. So `begin` is called only for
    /// the one that won, and only if the promise has not failed meanwhile: whatever it creates reaches the caller.
    func open<Opened: Sendable>(
        _ eventLoop: any EventLoop, _ begin: @escaping @Sendable (any Channel, EventLoopPromise<Opened>) throws -> Void
    ) async throws -> Opened {
        let promise = eventLoop.makePromise(of: Opened.self)
        let attempt = Attempt()
        let timer = eventLoop.scheduleTask(deadline: deadline) { promise.fail(attempt.isAccepted ? silent ?? late : late) }
        promise.futureResult.whenComplete { result in
            timer.cancel()
            let channel = attempt.end()
            if case .failure = result { channel?.close(promise: nil) }
        }
        // All on the event loop, so that the handlers are in place before the connection receives anything, even a reset.
        eventLoop.execute {
            do {
                try connect(eventLoop).whenComplete { result in
                    do {
                        let channel = try result.get()
                        guard attempt.hold(channel) else { return channel.close(promise: nil) }
                        try greetProxy(channel, promise, begin)
                        try channel.syncOptions?.setOption(.autoRead, value: true)
                    } catch { promise.fail(error) }
                }
            } catch { promise.fail(error) }
        }
        do {
            return try await withTaskCancellationHandler {
                try await promise.futureResult.get()
            } onCancel: {
                eventLoop.execute { promise.fail(CancellationError()) }
            }
        } catch { throw failure(error) }
    }

    private func connect(_ eventLoop: any EventLoop) throws -> EventLoopFuture<any Channel> {
        var bootstrap = ClientBootstrap(group: eventLoop)
            // Our own timer covers more, and must be the one that reports.
            .connectTimeout(max(deadline - .now(), .milliseconds(1)) + .seconds(1))
            // Nothing is read, and no TLS failure lost, before the handlers that wait for it are in place.
            .channelOption(.autoRead, value: false)
            .channelOption(.writeBufferWaterMark, value: .init(low: limits.writeLowWatermark, high: limits.writeHighWatermark))
            .channelOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: 65_536))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let bandwidth { try channel.pipeline.syncOperations.addHandler(PacingHandler([bandwidth])) }
                    if let proxy { try secure(channel, to: proxy) } else { try secure(channel) }
                }.flatMap { InterfaceBinding.bind(channel, to: networkInterface) }
            }
        switch target {
        case .unix(let path): return bootstrap.connect(unixDomainSocketPath: path)
        case .tcp(let host, let port):
            let (host, port) = proxy.map { ($0.host, $0.port) } ?? (host, port)
            let local = try networkInterface.map { try InterfaceBinding.localAddress(of: $0, toReach: host) }
            bootstrap = bootstrap
                .resolver(resolver?(eventLoop) ?? SystemResolver(eventLoop: eventLoop, family: local?.protocol))
                .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                .channelOption(.tcpUserTimeout, value: Int(limits.unacknowledgedTime.nanoseconds / 1_000_000))
            if let local { bootstrap = bootstrap.bind(to: local) }
            return bootstrap.connect(host: host, port: port)
        }
    }

    /// Starts the first exchange: with the remote, or with the proxy on the way to it.
    private func greetProxy<Opened: Sendable>(
        _ channel: any Channel, _ promise: EventLoopPromise<Opened>, _ begin: @escaping @Sendable (any Channel, EventLoopPromise<Opened>) throws -> Void
    ) throws {
        guard let proxy, case .tcp(let host, let port) = target else { return try begin(channel, promise) }
        let negotiation = proxy.negotiation(to: host, port, userAgent: userAgent, limit: limits.http.headerBytes)
        let handler = ProxyHandler(negotiation, proxy: proxy, connected: { channel in
            try secure(channel)
            try begin(channel, promise)
        }, failed: { promise.fail($0) })
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    /// Adds TLS, or a handler that notices that the other side expects TLS.
    private func secure(_ channel: any Channel) throws {
        let pipeline = channel.pipeline.syncOperations
        guard let secureLayer else { return try pipeline.addHandler(ClearTextGuard(error: speaksTLS)) }
        let role: SecureLayer.Role =
            switch target {
            case .unix: .client(host: "localhost", port: 0)
            case .tcp(let host, let port): .client(host: host, port: port)
            }
        try pipeline.addHandlers(secureLayer.makeHandlers(role))
    }

    /// Adds TLS to the proxy. Its certificate is not reported: the handler that waits for the target's certificate is added later.
    private func secure(_ channel: any Channel, to proxy: ProxyServer) throws {
        guard proxy.kind == .https else { return }
        guard let layer = proxy.secureLayer else { throw ReplicationError(domain: .tls, code: 6, message: "\(proxy): no TLS is configured for it") }
        try channel.pipeline.syncOperations.addHandlers(layer.makeHandlers(.client(host: proxy.host, port: proxy.port)))
    }

    /// If there is a proxy, a connection failure concerns the proxy.
    private func failure(_ error: any Error) -> any Error {
        if error is CancellationError { return error }
        var failure = NetworkErrors.replicationError(error, target: proxy.map { "\($0)" } ?? shown)
        if failure.domain == .network, failure.code == ReplicationError.NetworkCode.addressNotAvailable.rawValue, let networkInterface {
            failure.message += " (network_interface \(networkInterface))"
        }
        return failure
    }
}

extension OutgoingPipeline {
    /// The error when `connect_time` is over.
    static func late(_ shown: String, _ proxy: ProxyServer?, _ limit: TimeAmount) -> ReplicationError {
        ReplicationError(
            network: .timeout,
            message: "\(shown)\(proxy.map { " through \($0)" } ?? ""): no connection within \(limit.nanoseconds / 1_000_000) ms (connect_time)")
    }

    /// The same if the connection was accepted: the machine is up, but the server does not answer. With a proxy, it is unknown whether the target
    /// accepted.
    static func silent(_ shown: String, _ proxy: ProxyServer?, _ limit: TimeAmount) -> ReplicationError? {
        guard proxy == nil else { return nil }
        return ReplicationError(
            network: .timeout,
            message: "\(shown): it accepted the connection and did not answer within \(limit.nanoseconds / 1_000_000) ms (connect_time): it hangs, or uses another protocol")
    }
}
