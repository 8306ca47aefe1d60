import Interfaces
import NIOCore
import NIOHTTP1
import NIOPosix

/// How a request gets its connection: to the server, or to the proxy that leads there.
extension HTTPClient {
    typealias Connection = NIOAsyncChannel<HTTPClientResponsePart, HTTPClientRequestPart>

    func connect(_ head: HTTPRequestHead, _ ready: Ready, _ failure: Failure) async throws -> Connection {
        let eventLoop = group.next()
        let bootstrap = ClientBootstrap(group: eventLoop).connectTimeout(connectTime)
        switch target {
        case .unix(let path):
            return try await bootstrap.connect(unixDomainSocketPath: path) { channel in
                channel.eventLoop.makeCompletedFuture { try speakHTTP(channel, ready, failure) }
            }
        case .tcp(let host, let port):
            let first = proxy.map { ($0.host, $0.port) } ?? (host, port)
            let local = try networkInterface.map { try InterfaceBinding.localAddress(of: $0, toReach: first.0) }
            var bound = bootstrap.resolver(SystemResolver(eventLoop: eventLoop, family: local?.protocol))
            if let local { bound = bound.bind(to: local) }
            let connection = try await bound.connect(host: first.0, port: first.1) { channel in
                channel.eventLoop.makeCompletedFuture {
                    guard let proxy else { return channel.eventLoop.makeSucceededFuture(try speakHTTP(channel, ready, failure)) }
                    let agent = head.headers.first(name: "User-Agent") ?? "nightjar"
                    let negotiation = proxy.negotiation(to: host, port, userAgent: agent, limit: limits.http.headerBytes)
                    return try go(through: proxy, negotiation, channel) { try speakHTTP($0, ready, failure) }
                }.flatMap { connection in InterfaceBinding.bind(channel, to: networkInterface).map { connection } }
            }
            return try await connection.get()
        }
    }

    /// Who does not answer is the proxy, where there is one.
    func connectionError(_ error: any Error) -> ReplicationError {
        let whom = proxy.map { "\($0)" } ?? "\(target)"
        var error = NetworkErrors.replicationError(error, target: whom)
        if error.domain == .network, error.code == ReplicationError.NetworkCode.addressNotAvailable.rawValue, let networkInterface {
            error.message += " (network_interface \(networkInterface))"
        }
        return error
    }

    /// What the proxy is asked stands first; the rest follows as soon as it has connected us.
    private func go(
        through proxy: ProxyServer, _ negotiation: any ProxyNegotiation, _ channel: any Channel,
        _ speak: @escaping (any Channel) throws -> Connection
    ) throws -> EventLoopFuture<Connection> {
        let promise = channel.eventLoop.makePromise(of: Connection.self)
        let handler = ProxyHandler(negotiation, proxy: proxy, connected: { promise.succeed(try speak($0)) }, failed: { promise.fail($0) })
        try channel.pipeline.syncOperations.addHandler(handler)
        let timer = channel.eventLoop.scheduleTask(in: connectTime) { [target] in
            promise.fail(
                ReplicationError(
                    network: .timeout,
                    message: "\(target) through \(proxy): no connection within \(connectTime.nanoseconds / 1_000_000) ms (connect_time)"))
            channel.close(promise: nil)
        }
        promise.futureResult.whenComplete { _ in timer.cancel() }
        // One that never opened has told the handler nothing.
        channel.closeFuture.whenComplete { _ in promise.fail(ChannelError.ioOnClosedChannel) }
        return promise.futureResult
    }

    /// From here on the bytes are the server's.
    private func speakHTTP(_ channel: any Channel, _ ready: Ready, _ failure: Failure) throws -> Connection {
        let pipeline = channel.pipeline.syncOperations
        if let patience {
            try pipeline.addHandlers(IdleStateHandler(allTimeout: patience), PatienceHandler { [target] in
                failure.set(
                    ReplicationError(
                        network: .timeout, message: "\(target): nothing came or went for \(patience.nanoseconds / 1_000_000) ms (patience)"))
            })
        }
        if let secureLayer {
            let role: SecureLayer.Role
            switch target {
            case .unix: role = .client(host: "localhost", port: 0)
            case .tcp(let host, let port): role = .client(host: host, port: port)
            }
            try pipeline.addHandlers(secureLayer.makeHandlers(role))
            try pipeline.addHandler(ReadyHandler(ready.promise(channel.eventLoop), onSecurePeer))
        } else {
            try pipeline.addHandler(
                ClearTextGuard(error: ReplicationError(domain: .tls, code: 6, message: "\(target): the server speaks TLS: use https:")))
        }
        var decoderLimits = NIOHTTPDecoderLimitConfiguration()
        decoderLimits.maxHeaderFieldSize = limits.http.headerBytes
        decoderLimits.maxHeaderListSize = limits.http.headerBytes
        decoderLimits.maxHeaderFieldCount = limits.http.headerCount
        try pipeline.addHandler(HTTPRequestEncoder())
        try pipeline.addHandler(ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes, limitConfiguration: decoderLimits)))
        return try Connection(wrappingChannelSynchronously: channel)
    }
}
