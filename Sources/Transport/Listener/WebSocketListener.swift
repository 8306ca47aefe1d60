import Environment
import Glibc
import HTTPServer
import Interfaces
import Logging
import NIOCore

/// Accepts connections on a port: replication connections become WebSockets, everything else is HTTP, and the ``ListenerDelegate`` decides about
/// both.
public final class WebSocketListener: Sendable {
    public struct Configuration: Sendable {
        /// A network interface's name, an IP address or a host name; nil for all addresses.
        public var interface: String?
        /// 0 for any free port.
        public var port: Int
        /// A PING is sent to a peer that has been silent for this long.
        public var heartbeat: TimeAmount = .seconds(300)
        public var limits = TransportLimits()
        /// The agent's budget, from which the bodies of requests are taken.
        public var memory = MemoryBudget.unlimited
        /// TLS; nil for plain `ws:` and `http:`.
        public var secureLayer: SecureLayer?
        /// The bandwidth limits of connections; nil for none.
        public var bandwidth: ListenerBandwidth?
        /// Called for each connection that is refused because of a limit, with its remote address.
        package var refused: @Sendable (NamedLimit, String) -> Void = { _, _ in }
        /// Generates an id for a connection whose client names none; nil to have none.
        public var newCorrelationID: (@Sendable () -> String)?
        /// The supported tokens of `Sec-WebSocket-Protocol`.
        public var protocols = Subprotocol.names

        public init(interface: String? = nil, port: Int) {
            self.interface = interface
            self.port = port
        }
    }

    /// The result of ``followInterface()``.
    public struct Following: Sendable {
        /// The `host:port` of addresses that were added, and of those that were removed.
        public var bound: [String] = []
        public var closed: [String] = []
        /// Why it does not listen on any, or on all, of the interface's addresses.
        public var obstacle: ReplicationError?
    }

    private let http: HTTPListener
    /// The name of the interface that it is bound to; nil if it was bound to an address or a host.
    private let interface: String?
    private let places: WebSocketPlaces
    private let closeTime: TimeAmount

    /// Every address that it listens on, with the actual port.
    public var boundAddresses: [SocketAddress] { http.boundAddresses }

    /// The port of the first address.
    public var port: Int { boundAddresses.first?.port ?? 0 }

    /// `host:port` of every bound address, IPv6 hosts in brackets.
    public var boundDescriptions: [String] { boundAddresses.map(\.shown) }

    /// The `host:port` under which peers can reach it: for a wildcard address, the machine's present addresses. Omits link-local addresses, and
    /// loopback if there are others.
    public var reachableDescriptions: [String] { ListenAddresses.reachable(boundAddresses, at: NetworkInterfaces.all()).map(\.shown) }

    /// Upgraded connections.
    public var connectionCount: Int { places.connections.count }

    /// Open sockets of any kind.
    public var socketCount: Int { http.socketCount }

    /// Whether it is bound to a network interface, whose addresses may change.
    public var followsInterface: Bool { interface != nil }

    private init(http: HTTPListener, interface: String?, places: WebSocketPlaces, closeTime: TimeAmount) {
        self.http = http
        self.interface = interface
        self.places = places
        self.closeTime = closeTime
    }

    /// Binds and starts accepting.
    ///
    /// - Throws: ``ReplicationError`` in the network domain: 27 for an unknown interface, 25 for an address that is not this machine's or is in use,
    ///   1 or 2 for names, 28 for a port that this process may not use.
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

    /// Why it cannot listen, with what to do if another program or a missing right is in the way.
    static func obstacle(_ error: any Error, at target: String, port: Int) -> ReplicationError {
        if let code = (error as? IOError)?.errnoCode, [EACCES, EPERM].contains(code) {
            let remedy = PortHolder.permission(port: port)
            return ReplicationError(
                domain: .network, code: ReplicationError.NetworkCode.notPermitted.rawValue,
                message: "cannot listen on \(target): \(NetworkErrors.systemText(code)); \(remedy)", remedy: remedy)
        }
        var failure = NetworkErrors.replicationError(error, target: "cannot listen on \(target)")
        if (error as? IOError)?.errnoCode == EADDRINUSE { failure.message += "; \(PortHolder.advice(port: port))" }
        return failure
    }

    /// If it was bound to a network interface by name: listens on the interface's present addresses, with the same port. Existing connections and
    /// unchanged addresses are not affected. Must be called by one task at a time.
    public func followInterface() async -> Following {
        guard let interface else { return Following() }
        var following = Following()
        var current: [SocketAddress] = []
        do throws(ReplicationError) {
            guard let listed = try ListenAddresses.current(of: interface) else {
                if boundAddresses.isEmpty { following.obstacle = ListenAddresses.addressesUnknown(interface) }
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
        // At level info: the other side's operator only sees that there is no connection, and only this side knows why.
        return HTTPListener.ConnectionFailure(
            level: .info, message: "TLS connection failed", detail: error.message,
            refusal: isSecure ? nil : "this port speaks plain HTTP, not TLS: use http: or ws:")
    }

    /// Stops accepting: another listener may bind the port when this returns. Existing connections continue until ``stop(code:reason:)``.
    public func stopAccepting() async {
        places.beginStopping()
        await http.stopAccepting()
    }

    /// Stops accepting, closes every connection and returns when all have ended: after `close_time` at the latest, when the rest are dropped.
    ///
    /// - Parameter code: 4001 makes Couchbase Lite reconnect, 1001 makes it stop permanently.
    public func stop(code: UInt16 = 4001, reason: String = "the listener stops") async {
        await stopAccepting()
        for connection in places.connections { connection.close(code: code, reason: reason) }
        await http.drain(within: closeTime)
    }
}
