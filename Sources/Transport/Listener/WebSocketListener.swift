import Environment
import Glibc
import HTTPServer
import Interfaces
import Logging
import NIOCore

/// Accepts connections on a port: replication connections become WebSockets, everything else is HTTP, and the
/// ``ListenerDelegate`` decides about both.
public final class WebSocketListener: Sendable {
    public struct Configuration: Sendable {
        /// A network interface's name, an IP address or a host name; nil for all addresses.
        public var interface: String?
        /// 0 for any free port.
        public var port: Int
        /// A peer from which nothing has come for this long gets a PING.
        public var heartbeat: TimeAmount = .seconds(300)
        public var limits = TransportLimits()
        /// Of the agent: what the bodies of requests draw on.
        public var memory = MemoryBudget.unlimited
        /// TLS; nil for plain `ws:` and `http:`.
        public var secureLayer: SecureLayer?
        /// What connections are held to; nil: nothing.
        public var bandwidth: ListenerBandwidth?
        /// Told of each connection that is refused because of a limit, with the address that it came from.
        package var refused: @Sendable (NamedLimit, String) -> Void = { _, _ in }
        /// Makes an id for a connection whose client names none; nil: such connections have none.
        public var newCorrelationID: (@Sendable () -> String)?
        /// The tokens of `Sec-WebSocket-Protocol` that are spoken.
        public var protocols = Subprotocol.names

        public init(interface: String? = nil, port: Int) {
            self.interface = interface
            self.port = port
        }
    }

    /// What ``followInterface()`` has come to.
    public struct Following: Sendable {
        /// `host:port` that it listens on since then, and those that it no longer does.
        public var bound: [String] = []
        public var closed: [String] = []
        /// Why it listens on none of the interface's addresses, or not on all.
        public var obstacle: ReplicationError?
    }

    private let http: HTTPListener
    /// By whose name it was bound; nil where that was an address or a host.
    private let interface: String?
    private let places: WebSocketPlaces
    private let closeTime: TimeAmount

    /// Every address that is listened on, with the real port.
    public var boundAddresses: [SocketAddress] { http.boundAddresses }

    /// The port of the first address.
    public var port: Int { boundAddresses.first?.port ?? 0 }

    /// `host:port` of every bound address, IPv6 hosts in brackets.
    public var boundDescriptions: [String] { boundAddresses.map(\.shown) }

    /// `host:port` under which peers can reach it: where it listens on every address, those that the machine has now. Addresses that mean
    /// something on one link only are left out, and loopback where there is another one.
    public var reachableDescriptions: [String] { ListenAddresses.reachable(boundAddresses, at: NetworkInterfaces.all()).map(\.shown) }

    /// Upgraded connections.
    public var connectionCount: Int { places.connections.count }

    /// Open sockets of any kind.
    public var socketCount: Int { http.socketCount }

    /// Its addresses are those of a network interface, which may get others.
    public var followsInterface: Bool { interface != nil }

    private init(http: HTTPListener, interface: String?, places: WebSocketPlaces, closeTime: TimeAmount) {
        self.http = http
        self.interface = interface
        self.places = places
        self.closeTime = closeTime
    }

    /// Binds and begins to accept.
    ///
    /// - Throws: ``ReplicationError`` of the network domain: 27 for an unknown interface, 25 for an address that is not this
    ///   machine's or is in use, 1 or 2 for names, 17 with the system's words for a port that is forbidden.
    public static func bind(
        _ configuration: Configuration, delegate: any ListenerDelegate, group: any EventLoopGroup, logger: Logger
    ) async throws -> WebSocketListener {
        let limits = configuration.limits
        let places = WebSocketPlaces(limit: limits.maxConnections)
        let responder = UpgradeResponder(configuration: configuration, delegate: delegate, places: places, logger: logger)
        var http = HTTPListener.Configuration()
        http.limits = limits.http
        http.memory = configuration.memory
        http.limits.maxSockets = limits.maxConnections + limits.maxHTTPConnections
        http.limits.writeLowWatermark = limits.writeLowWatermark
        http.limits.writeHighWatermark = limits.writeHighWatermark
        let secureLayer = configuration.secureLayer
        let bandwidth = configuration.bandwidth
        http.makeLowerHandlers = {
            let pacing: [any ChannelHandler] = bandwidth.map { [PacingHandler($0.ofConnection)] } ?? []
            return try pacing + (secureLayer?.makeHandlers(.server) ?? [ClearTextGuard.server()])
        }
        http.refused = configuration.refused
        http.explain = { explain($0, isSecure: secureLayer != nil) }
        do {
            let found = try await ListenAddresses.find(interface: configuration.interface, port: configuration.port)
            let bound = try await HTTPListener.bind(found.addresses, http, group: group, logger: logger) { try await responder.respond(to: $0) }
            return WebSocketListener(http: bound, interface: found.areOfInterface ? configuration.interface : nil, places: places, closeTime: limits.closeTime)
        } catch {
            throw obstacle(error, at: "\(configuration.interface ?? "all addresses"), port \(configuration.port)", port: configuration.port)
        }
    }

    private static func obstacle(_ error: any Error, at target: String, port: Int) -> ReplicationError {
        var failure = NetworkErrors.replicationError(error, target: "cannot listen on \(target)")
        if (error as? IOError)?.errnoCode == EADDRINUSE { failure.message += "; \(PortHolder.advice(port: port))" }
        return failure
    }

    /// Where it was bound by the name of a network interface: listens on the addresses that the interface has by now, on the port that it has.
    /// What is connected goes on, and an address that the interface has kept is not touched. One call at a time.
    public func followInterface() async -> Following {
        guard let interface else { return Following() }
        var following = Following()
        var current: [SocketAddress] = []
        do throws(ReplicationError) {
            guard let listed = try ListenAddresses.current(of: interface) else {
                if boundAddresses.isEmpty { following.obstacle = ListenAddresses.untold(interface) }
                return following
            }
            current = listed
        } catch {
            following.obstacle = error
        }
        let outcome = await http.listen(on: current)
        following.bound = outcome.bound.map(\.shown)
        following.closed = outcome.closed.map(\.shown)
        if let (address, error) = outcome.failures.first {
            following.obstacle = Self.obstacle(error, at: address.shown, port: address.port ?? 0)
        }
        return following
    }

    private static func explain(_ error: any Error, isSecure: Bool) -> HTTPListener.ConnectionFailure {
        guard let error = error as? ReplicationError, error.domain == .tls else {
            return HTTPListener.ConnectionFailure(detail: NetworkErrors.describe(error))
        }
        // At the level info: whoever runs the other side sees no connection, and only this side knows why.
        return HTTPListener.ConnectionFailure(
            level: .info, message: "TLS connection failed", detail: error.message,
            refusal: isSecure ? nil : "this port speaks plain HTTP, not TLS: use http: or ws:")
    }

    /// Stops accepting: another listener may have the port when this returns. What is connected goes on until ``stop(code:reason:)``.
    public func stopAccepting() async {
        places.beginStopping()
        await http.stopAccepting()
    }

    /// Stops accepting, closes every connection and returns when all are gone: at the latest after `close_time`, when the
    /// rest is dropped.
    ///
    /// - Parameter code: 4001 makes Couchbase Lite come back, 1001 makes it stop for good.
    public func stop(code: UInt16 = 4001, reason: String = "the listener stops") async {
        await stopAccepting()
        for connection in places.connections { connection.close(code: code, reason: reason) }
        await http.drain(within: closeTime)
    }
}
