import HTTPServer
import Interfaces
import NIOCore
import NIOPosix
import Synchronization

/// How every outgoing connection begins, whatever is spoken over it: name resolution, the network interface, TCP, the proxy's greeting, TLS.
struct OutgoingPipeline: Sendable {
    var target: HTTPClient.Target
    /// The target as the operator wrote it, for errors.
    var shown: String
    var proxy: ProxyServer?
    /// A network interface's name or an address of this machine to connect from.
    var networkInterface: String?
    /// What the connection is held to; nil: nothing.
    var bandwidth: Bandwidth?
    /// Nil for clear text.
    var secureLayer: SecureLayer?
    /// For clear text: what it means when the other side speaks TLS.
    var speaksTLS: ReplicationError
    var userAgent = "nightjar"
    var limits = TransportLimits()
    /// Until then the promise is to be kept.
    var deadline: NIODeadline
    /// Said where it is not.
    var late: ReplicationError
    /// Said in its place where the other side has accepted the connection; nil where that makes no difference.
    var silent: ReplicationError?
    /// In place of the system's name resolution.
    var resolver: (@Sendable (any EventLoop) -> any Resolver & Sendable)?

    /// The connection that won, so that whoever gives up can close it. What completes the promise runs on the event loop, as all that looks
    /// here does, except for a cancelled task.
    private final class Attempt: Sendable {
        private let state: Mutex<(channel: (any Channel)?, isOver: Bool)> = Mutex((nil, false))

        /// False if it came too late.
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

    /// Connects, and lets `begin` put its handlers behind TLS and complete the promise, then or later. A failed promise closes the connection,
    /// and so does a cancelled task.
    ///
    /// Several addresses of a name may be tried at once, each with a channel of its own, of which all but one are thrown away. So `begin` is
    /// called for the one that won, and not if the promise has failed meanwhile: whatever it makes reaches the caller.
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
        // All of it on the event loop: the handlers are there before the connection hears anything, be it a reset.
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
            // Our own timer covers more and must be the one that reports.
            .connectTimeout(max(deadline - .now(), .milliseconds(1)) + .seconds(1))
            // Nothing is read, and no failure of TLS lost, before the handlers that wait for it are there.
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

    /// What is said first: to the remote, or to the proxy on the way.
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

    /// TLS, or what notices that it is wanted.
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

    /// The way to the proxy. What the proxy's certificate says is told to nobody: the handler that waits for the target's comes later.
    private func secure(_ channel: any Channel, to proxy: ProxyServer) throws {
        guard proxy.kind == .https else { return }
        guard let layer = proxy.secureLayer else { throw ReplicationError(domain: .tls, code: 6, message: "\(proxy): no TLS is configured for it") }
        try channel.pipeline.syncOperations.addHandlers(layer.makeHandlers(.client(host: proxy.host, port: proxy.port)))
    }

    /// Who does not answer is the proxy, where there is one.
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
    /// Late by `connect_time`.
    static func late(_ shown: String, _ proxy: ProxyServer?, _ limit: TimeAmount) -> ReplicationError {
        ReplicationError(
            network: .timeout,
            message: "\(shown)\(proxy.map { " through \($0)" } ?? ""): no connection within \(limit.nanoseconds / 1_000_000) ms (connect_time)")
    }

    /// The same where the connection was accepted: the machine is there, and what listens does not answer. Of a proxy nobody knows whether it is the target.
    static func silent(_ shown: String, _ proxy: ProxyServer?, _ limit: TimeAmount) -> ReplicationError? {
        guard proxy == nil else { return nil }
        return ReplicationError(
            network: .timeout,
            message: "\(shown): it accepted the connection and did not answer within \(limit.nanoseconds / 1_000_000) ms (connect_time): it hangs, or speaks another protocol")
    }
}
