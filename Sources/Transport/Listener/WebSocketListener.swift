import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// Accepts connections on a port: replication connections become WebSockets, everything else is HTTP, and the
/// ``ListenerDelegate`` decides about both.
public final class WebSocketListener: Sendable {
    public struct Configuration: Sendable {
        /// A network interface's name, an IP address or a host name; nil for all addresses.
        public var interface: String?
        /// 0 for any free port.
        public var port: Int
        /// Silence after which a peer gets a PING.
        public var heartbeat: TimeAmount = .seconds(300)
        public var limits = TransportLimits()
        /// TLS; nil for plain `ws:` and `http:`.
        public var secureLayer: SecureLayer?
        /// The tokens of `Sec-WebSocket-Protocol` that are spoken.
        public var protocols = ["BLIP_3+CBMobile_3", "BLIP_3+CBMobile_2"]

        public init(interface: String? = nil, port: Int) {
            self.interface = interface
            self.port = port
        }
    }

    /// What the handlers of the accepted connections share.
    final class Core: Sendable {
        let configuration: Configuration
        let delegate: any ListenerDelegate
        let state: ListenerState
        let logger: Logger
        var protocols: [String] { configuration.protocols }

        init(configuration: Configuration, delegate: any ListenerDelegate, logger: Logger) {
            self.configuration = configuration
            self.delegate = delegate
            self.logger = logger
            state = ListenerState(limits: configuration.limits)
        }

        func shown(_ channel: any Channel) -> String {
            channel.remoteAddress?.shown ?? "unknown"
        }
    }

    private let core: Core
    private let group: any EventLoopGroup
    private let serverChannels: Mutex<[any Channel]>

    /// Every address that is listened on, with the real port.
    public let boundAddresses: [SocketAddress]

    /// The port of the first address.
    public var port: Int { boundAddresses.first?.port ?? 0 }

    /// `host:port` of every bound address, IPv6 hosts in brackets.
    public var boundDescriptions: [String] { boundAddresses.map(\.shown) }

    /// Upgraded connections.
    public var connectionCount: Int { core.state.webSocketCount }

    /// Open sockets of any kind.
    public var socketCount: Int { core.state.socketCount }

    private init(core: Core, group: any EventLoopGroup, channels: [any Channel]) {
        self.core = core
        self.group = group
        boundAddresses = channels.compactMap(\.localAddress)
        serverChannels = Mutex(channels)
    }

    /// Binds and begins to accept.
    ///
    /// - Throws: ``ReplicationError`` of the network domain: 27 for an unknown interface, 25 for an address that is not this
    ///   machine's, 1 or 2 for names, 17 with the system's words for a port in use or forbidden.
    public static func bind(
        _ configuration: Configuration, delegate: any ListenerDelegate, group: any EventLoopGroup, logger: Logger
    ) async throws -> WebSocketListener {
        let core = Core(configuration: configuration, delegate: delegate, logger: logger)
        let addresses = try await ListenAddresses.resolve(interface: configuration.interface, port: configuration.port)
        var attempt = 0
        while true {
            attempt += 1
            do {
                let channels = try await bindAll(addresses, core, group)
                return WebSocketListener(core: core, group: group, channels: channels)
            } catch let error as IOError where error.errnoCode == EADDRINUSE && configuration.port == 0 && attempt < 10 {
                // The port that the system chose for one address was taken on another.
                continue
            } catch {
                let target = "\(configuration.interface ?? "all addresses"), port \(configuration.port)"
                throw NetworkErrors.replicationError(error, target: "cannot listen on \(target)")
            }
        }
    }

    private static func bindAll(_ addresses: [ListenAddresses.Entry], _ core: Core, _ group: any EventLoopGroup) async throws -> [any Channel] {
        var channels: [any Channel] = []
        var port = core.configuration.port
        do {
            for entry in addresses {
                var address = entry.address
                address.port = port
                do {
                    let channel = try await bootstrap(core, group, isIPv6: address.protocol == .inet6).bind(to: address).get()
                    channels.append(channel)
                    port = channel.localAddress?.port ?? port
                } catch let error as IOError where entry.isOptional && error.errnoCode != EADDRINUSE {
                    core.logger.debug("not listening on \(address.shown)", metadata: ["error": "\(NetworkErrors.describe(error))"])
                }
            }
        } catch {
            for channel in channels { try? await channel.close() }
            throw error
        }
        return channels
    }

    private static func bootstrap(_ core: Core, _ group: any EventLoopGroup, isIPv6: Bool) -> ServerBootstrap {
        let limits = core.configuration.limits
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 512)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.writeBufferWaterMark, value: .init(low: limits.writeLowWatermark, high: limits.writeHighWatermark))
            .childChannelOption(.recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 4096, maximum: 65536))
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try makePipeline(channel, core) }
            }
        // An IPv6 socket takes IPv4 too unless told otherwise, and IPv4 has its own.
        let v6Only = ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only)
        return isIPv6 ? bootstrap.serverChannelOption(v6Only, value: 1) : bootstrap
    }

    /// The pipeline of every accepted connection: the secure layer if any, then HTTP.
    private static func makePipeline(_ channel: any Channel, _ core: Core) throws {
        if let refusal = core.state.add(channel, from: channel.remoteAddress?.origin ?? "") {
            if let limit = refusal.limit {
                core.logger.warning(
                    "connection refused: \(limit.name) (\(limit.value)) is reached", metadata: ["remote": "\(core.shown(channel))"])
            }
            channel.close(promise: nil)
            return
        }
        let state = core.state
        channel.closeFuture.whenComplete { _ in state.remove(channel) }
        let pipeline = channel.pipeline.syncOperations
        if let secureLayer = core.configuration.secureLayer {
            try pipeline.addHandlers(secureLayer.makeHandlers(.server))
        } else {
            try pipeline.addHandler(ClearTextGuard.server())
        }
        var decoderLimits = NIOHTTPDecoderLimitConfiguration()
        decoderLimits.maxHeaderFieldSize = core.state.limits.headerBytes
        decoderLimits.maxHeaderListSize = core.state.limits.headerBytes
        decoderLimits.maxHeaderFieldCount = core.state.limits.headerCount
        let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: decoderLimits)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        try pipeline.addHandler(HTTPConnectionHandler(owner: core))
    }

    /// Stops accepting, closes every connection and returns when all are gone: at the latest after `close_time`, when the
    /// rest is dropped.
    ///
    /// - Parameter code: 4001 makes Couchbase Lite come back, 1001 makes it stop for good.
    public func stop(code: UInt16 = 4001, reason: String = "the listener stops") async {
        core.state.beginStopping()
        let servers = serverChannels.withLock { channels in
            defer { channels = [] }
            return channels
        }
        for server in servers { try? await server.close() }
        for connection in core.state.webSockets { connection.close(code: code, reason: reason) }
        for channel in core.state.sockets { channel.pipeline.fireUserInboundEventTriggered(HTTPConnectionHandler.Drain()) }
        let state = core.state
        let deadline = group.next().scheduleTask(in: core.configuration.limits.closeTime) {
            for channel in state.sockets { channel.close(promise: nil) }
        }
        await state.waitUntilAllGone()
        deadline.cancel()
    }
}
