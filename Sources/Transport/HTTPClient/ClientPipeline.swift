import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix

/// What stands between the socket of an ``HTTPClient`` and its requests: the proxy's greeting, TLS, HTTP.
struct ClientPipeline: Sendable {
    struct Opened: Sendable {
        var stream: ClientConnection.Stream
        var patience: NIOLoopBound<PatienceHandler>
    }

    private let client: HTTPClient
    let ready: HTTPClient.Ready

    init(_ client: HTTPClient) {
        self.client = client
        ready = HTTPClient.Ready(client.secured)
    }

    /// Resolves, connects, and asks the proxy if there is one.
    func connect() async throws -> Opened {
        let eventLoop = client.group.next()
        var bootstrap = ClientBootstrap(group: eventLoop).connectTimeout(client.connectTime)
        if case .tcp(let host, _) = client.target {
            let local = try client.networkInterface.map { try InterfaceBinding.localAddress(of: $0, toReach: client.proxy?.host ?? host) }
            bootstrap = bootstrap.resolver(SystemResolver(eventLoop: eventLoop, family: local?.protocol))
            if let local { bootstrap = bootstrap.bind(to: local) }
        }
        let promise = eventLoop.makePromise(of: Opened.self)
        bootstrap = bootstrap.channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try begin(channel, promise) }
                .flatMap { InterfaceBinding.bind(channel, to: client.networkInterface) }
        }
        let connecting: EventLoopFuture<any Channel> =
            switch client.target {
            case .unix(let path): bootstrap.connect(unixDomainSocketPath: path)
            case .tcp(let host, let port): bootstrap.connect(host: client.proxy?.host ?? host, port: client.proxy?.port ?? port)
            }
        connecting.whenFailure { promise.fail($0) }
        if let proxy = client.proxy {
            let limit = client.connectTime
            let timer = eventLoop.scheduleTask(in: limit) {
                promise.fail(
                    ReplicationError(
                        network: .timeout, message: "\(client.target) through \(proxy): no connection within \(limit.nanoseconds / 1_000_000) ms (connect_time)"))
                connecting.whenSuccess { $0.close(promise: nil) }
            }
            promise.futureResult.whenComplete { _ in timer.cancel() }
        }
        // Handlers are there before the connection is, unless a proxy has to be asked first.
        _ = try await connecting.get()
        return try await promise.futureResult.get()
    }

    private func begin(_ channel: any Channel, _ promise: EventLoopPromise<Opened>) throws {
        guard let proxy = client.proxy, case .tcp(let host, let port) = client.target else { return promise.succeed(try handlers(channel)) }
        let negotiation = proxy.negotiation(to: host, port, userAgent: "nightjar", limit: client.limits.http.headerBytes)
        let handler = ProxyHandler(
            negotiation, proxy: proxy, connected: { channel in promise.succeed(try handlers(channel)) }, failed: { promise.fail($0) })
        try channel.pipeline.syncOperations.addHandler(handler)
    }

    private func handlers(_ channel: any Channel) throws -> Opened {
        let pipeline = channel.pipeline.syncOperations
        let target = client.target
        let patience = PatienceHandler()
        try pipeline.addHandler(patience)
        if let secureLayer = client.secureLayer {
            let role: SecureLayer.Role =
                switch target {
                case .unix: .client(host: "localhost", port: 0)
                case .tcp(let host, let port): .client(host: host, port: port)
                }
            try pipeline.addHandlers(secureLayer.makeHandlers(role))
            try pipeline.addHandler(HTTPClient.ReadyHandler(ready))
        } else {
            try pipeline.addHandler(
                ClearTextGuard(error: ReplicationError(domain: .tls, code: 6, message: "\(target): the server speaks TLS: use https:")))
        }
        try pipeline.addHandler(HTTPRequestEncoder())
        let decoder = HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: client.limits.http.decoder)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        return Opened(
            stream: try ClientConnection.Stream(wrappingChannelSynchronously: channel),
            patience: NIOLoopBound(patience, eventLoop: channel.eventLoop))
    }
}
