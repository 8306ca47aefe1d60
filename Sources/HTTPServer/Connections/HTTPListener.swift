import Environment
import Glibc
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// An HTTP/1.1 server on one or more addresses or on a unix domain socket.
package final class HTTPListener: Sendable {
    /// Answers one request. Errors are answered too: an ``HTTPError`` as it says, any other error as ``Configuration/explainFailure`` says. The task
    /// is cancelled if the client disconnects.
    package typealias Responder = @Sendable (HTTPRequest) async throws -> HTTPResponse

    /// How to handle a pipeline error that did not come from HTTP.
    package struct ConnectionFailure: Sendable {
        package var level: Logger.Level
        package var message: String
        package var detail: String
        /// Sent to the client with 400, if it can understand that; nil closes the connection.
        package var refusal: String?

        package init(level: Logger.Level = .debug, message: String = "connection failed", detail: String, refusal: String? = nil) {
            self.level = level
            self.message = message
            self.detail = detail
            self.refusal = refusal
        }
    }

    package struct Configuration: Sendable {
        package var limits = HTTPLimits()
        /// The agent's budget, from which collected bodies are taken.
        package var memory = MemoryBudget.unlimited
        /// Makes the handlers below HTTP, such as TLS, for each accepted connection, on its event loop. They pass plain bytes on and may fire a
        /// ``PeerIdentity``.
        package var makeLowerHandlers: @Sendable () throws -> [any ChannelHandler] = { [] }
        package var explain: @Sendable (any Error) -> ConnectionFailure = { ConnectionFailure(detail: "\($0)") }
        /// Called for each connection that is refused because of a limit, with its remote address.
        package var refused: @Sendable (NamedLimit, String) -> Void = { _, _ in }
        /// The answer to an error thrown by a route that is not an ``HTTPError``.
        package var explainFailure: @Sendable (any Error) -> HTTPError = { HTTPError(500, "\($0)") }

        package init() {}
    }

    /// Where to listen.
    package struct Address: Sendable, Equatable {
        package var address: SocketAddress
        /// Whether the listener works without this address if the system cannot provide it.
        package var isOptional: Bool

        package init(_ address: SocketAddress, isOptional: Bool = false) {
            self.address = address
            self.isOptional = isOptional
        }
    }

    /// State shared by the handlers of accepted connections.
    final class Core: Sendable {
        let configuration: Configuration
        let table: ConnectionTable
        let drain = DrainSignal()
        let logger: Logger
        private let respond: Responder

        init(configuration: Configuration, logger: Logger, respond: @escaping Responder) {
            self.configuration = configuration
            self.logger = logger
            self.respond = respond
            table = ConnectionTable(limits: configuration.limits, memory: configuration.memory)
        }

        func answer(_ request: HTTPRequest) async -> HTTPResponse {
            do { return try await respond(request) } catch let error as HTTPError { return error.response } catch {
                return configuration.explainFailure(error).response
            }
        }

        /// What to tell a client about an error in its pipeline; nil if the client could not understand it.
        func problem(_ error: any Error, of remoteAddress: String) -> (status: Int, reason: String)? {
            switch error {
            case HTTPParserError.headerOverflow:
                let (bytes, count) = (table.limits.headerBytes, table.limits.headerCount)
                return (431, "the request's header has more than header_bytes (\(bytes)) or header_count (\(count)) allow")
            case is HTTPParserError:
                return (400, "this is not HTTP/1.1: \(error)")
            default:
                let failure = configuration.explain(error)
                logger.log(
                    level: failure.level, "\(failure.message)", metadata: ["remote": "\(remoteAddress)", "error": "\(failure.detail)"])
                return failure.refusal.map { (400, $0) }
            }
        }

        /// - Parameter yieldResources: called from any thread when the request has to give way.
        func bodyMemory(of client: ConnectionInfo, yieldResources: @escaping @Sendable () -> Void) -> BodyMemory {
            BodyMemory(table, of: client.origin) { [logger, remoteAddress = client.remoteAddress] in
                logger.warning(
                    "an incomplete request is dropped: limits.memory is used up", metadata: ["remote": "\(remoteAddress)", "limit": "limits.memory"])
                yieldResources()
            }
        }

        /// A separate field, so that log folding distinguishes the limits.
        func warn(_ limit: NamedLimit, _ what: String, _ channel: any Channel) {
            logger.warning(
                "\(what): \(limit.name) (\(limit.value)) is reached",
                metadata: ["remote": "\(channel.remoteAddress?.shown ?? "unknown")", "limit": "\(limit.name)"])
        }
    }

    private struct Server: Sendable {
        var address: SocketAddress
        var channel: any Channel
    }

    /// The result of ``listen(on:)``.
    package struct Rebinding: Sendable {
        package var bound: [SocketAddress] = []
        package var closed: [SocketAddress] = []
        /// Addresses that could not be bound, and why.
        package var failures: [(address: SocketAddress, error: any Error)] = []
    }

    private let core: Core
    private let group: any EventLoopGroup
    /// The common port of all addresses, including those that are added later.
    private let port: Int?
    private let servers: Mutex<[Server]>

    /// Every address that it is listening on, with the actual port.
    package var boundAddresses: [SocketAddress] { servers.withLock { $0.map(\.address) } }

    /// Open sockets of any kind.
    package var socketCount: Int { core.table.socketCount }
    /// Memory currently held by collected request bodies.
    package var bodyBytes: Int { core.table.bodyBytes }
    package var isStopping: Bool { core.table.isStopping }

    private init(core: Core, group: any EventLoopGroup, servers: [Server]) {
        self.core = core
        self.group = group
        port = servers.first?.address.port
        self.servers = Mutex(servers)
    }

    /// Binds all addresses, on the same port even if the first says 0, and starts accepting.
    ///
    /// - Throws: the `IOError` for the address that cannot be bound.
    package static func bind(
        _ addresses: [Address], _ configuration: Configuration, group: any EventLoopGroup, logger: Logger, respond: @escaping Responder
    ) async throws -> HTTPListener {
        let core = Core(configuration: configuration, logger: logger, respond: respond)
        var attempt = 0
        while true {
            attempt += 1
            do {
                return HTTPListener(core: core, group: group, servers: try await bindAll(addresses, core, group))
            } catch let error as IOError where error.errnoCode == EADDRINUSE && addresses.first?.address.port == 0 && attempt < 10 {
                // The port that the system chose for one address is in use on another.
                continue
            }
        }
    }

    private static func bindAll(_ addresses: [Address], _ core: Core, _ group: any EventLoopGroup) async throws -> [Server] {
        var servers: [Server] = []
        var port = addresses.first?.address.port
        do {
            for entry in addresses {
                var address = entry.address
                if address.port != nil { address.port = port }
                do {
                    let server = try await bind(address, core, group)
                    servers.append(server)
                    port = server.address.port ?? port
                } catch let error as IOError where entry.isOptional && error.errnoCode != EADDRINUSE {
                    core.logger.debug("not listening on \(address.shown)", metadata: ["error": "\(error)"])
                }
            }
        } catch {
            for server in servers { try? await server.channel.close() }
            throw error
        }
        return servers
    }

    private static func bind(_ address: SocketAddress, _ core: Core, _ group: any EventLoopGroup) async throws -> Server {
        let channel = try await bootstrap(core, group, address.protocol).bind(to: address).get()
        return Server(address: channel.localAddress ?? address, channel: channel)
    }

    /// Changes the addresses that it listens on, keeping the port: addresses that are already bound stay bound, missing ones are bound, and all
    /// others are closed. Existing connections are not affected. Must be called by one task at a time.
    package func listen(on wanted: [SocketAddress]) async -> Rebinding {
        let wanted = wanted.map { address in
            var address = address
            if address.port != nil { address.port = port }
            return address
        }
        let gone = servers.withLock { servers in
            let gone = servers.filter { !wanted.contains($0.address) }
            servers.removeAll { !wanted.contains($0.address) }
            return gone
        }
        for server in gone { try? await server.channel.close() }
        var outcome = Rebinding(closed: gone.map(\.address))
        for address in wanted where !boundAddresses.contains(address) {
            do {
                let server = try await Self.bind(address, core, group)
                guard keep(server) else {
                    try? await server.channel.close()
                    break
                }
                outcome.bound.append(server.address)
            } catch {
                outcome.failures.append((address, error))
            }
        }
        return outcome
    }

    /// False if the listener is stopping, because the stop would not see the new server.
    private func keep(_ server: Server) -> Bool {
        servers.withLock { servers in
            guard !core.table.isStopping else { return false }
            servers.append(server)
            return true
        }
    }

    private static func bootstrap(_ core: Core, _ group: any EventLoopGroup, _ family: NIOBSDSocket.ProtocolFamily) -> ServerBootstrap {
        let limits = core.configuration.limits
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 512)
            .childChannelOption(.writeBufferWaterMark, value: .init(low: limits.writeLowWatermark, high: limits.writeHighWatermark))
            // NIO keeps as many read buffers for each connection, and fills all of them at once; what a read may bring is counted as one.
            .childChannelOption(.maxMessagesPerRead, value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try makePipeline(channel, core) }
            }
        guard family != .unix else { return bootstrap }
        let tcp = bootstrap.serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
        // An IPv6 socket also accepts IPv4 unless told otherwise, and IPv4 has its own socket.
        let v6Only = ChannelOptions.Types.SocketOption(level: .ipv6, name: .ipv6_v6only)
        return family == .inet6 ? tcp.serverChannelOption(v6Only, value: 1) : tcp
    }

    /// The pipeline of every accepted connection: the handlers below HTTP, then HTTP.
    static func makePipeline(_ channel: any Channel, _ core: Core) throws {
        let origin = channel.remoteAddress?.origin ?? ""
        let entry: ConnectionTable.Entry
        switch core.table.add(channel, from: origin) {
        case .stopping: return channel.close(promise: nil)
        case .refused(let limit):
            core.warn(limit, "connection refused", channel)
            core.configuration.refused(limit, origin)
            return channel.close(promise: nil)
        case .taken(let taken, let evicted):
            entry = taken
            if let limit = taken.refusal {
                core.warn(limit, "connection refused", channel)
                core.configuration.refused(limit, origin)
            }
            if let evicted {
                core.warn(evicted.limit, "a waiting connection gives its place to a new one", channel)
                evicted.entry.channel.pipeline.fireUserInboundEventTriggered(HTTPConnectionHandler.Order.leave)
            }
        }
        channel.closeFuture.whenComplete { _ in core.table.remove(entry) }
        // NIO keeps a read buffer for each connection even while nothing arrives: most of the memory of an idle peer. NIO rounds the maximum up.
        let largest = core.table.limits.readBuffer(among: core.table.socketCount)
        try channel.syncOptions?.setOption(
            .recvAllocator,
            value: AdaptiveRecvByteBufferAllocator(minimum: 512, initial: 1_024, maximum: 1 << (Int.bitWidth - 1 - largest.leadingZeroBitCount)))
        let pipeline = channel.pipeline.syncOperations
        try pipeline.addHandlers(core.configuration.makeLowerHandlers())
        let decoder = HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: core.table.limits.decoder)
        try pipeline.addHandler(ByteToMessageHandler(decoder))
        var info = ConnectionInfo(remoteAddress: channel.remoteAddress?.shown ?? "unknown", origin: origin, drain: core.drain)
        if let local = channel.localAddress, let host = local.ipAddress, let port = local.port { info.localAddress = (host, port) }
        try pipeline.addHandler(HTTPConnectionHandler(core: core, entry: entry, info: info))
    }

    /// Stops accepting; existing connections are not affected.
    package func stopAccepting() async {
        core.table.beginStopping()
        for server in servers.withLock({ $0 }) { try? await server.channel.close() }
    }

    /// Stops accepting, ends idle connections and incomplete requests immediately and others after their response, and returns when all have ended:
    /// after `time` at the latest, when the rest are closed. Upgraded connections must be closed by their owner.
    package func drain(within time: TimeAmount) async {
        await stopAccepting()
        core.drain.drain()
        for channel in core.table.channels { channel.pipeline.fireUserInboundEventTriggered(HTTPConnectionHandler.Order.drain) }
        let table = core.table
        let deadline = group.next().scheduleTask(in: time) {
            for channel in table.channels { channel.close(promise: nil) }
        }
        await table.waitUntilAllGone()
        deadline.cancel()
    }
}
