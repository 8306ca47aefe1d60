import Environment
import Glibc
import HTTPServer
import Interfaces
import Logging
import MessageEndpoints
import NIOCore
import NIOPosix
import Synchronization

/// Serves peers at a message endpoint: many at a Unix domain socket, one at a time at a device or a command's streams. The ``ListenerDelegate``
/// decides about them as about those at a port.
public final class EndpointListener: Sendable {
    public struct Configuration: Sendable {
        public var address: EndpointAddress
        /// The file mode of a Unix domain socket.
        public var mode: UInt32 = 0o600
        /// The peer's user name; nil for the user that runs the peer's process, if the system says.
        public var user: String?
        public var maxConnections = 1000
        /// The budget for memory held on behalf of peers.
        public var memory = MemoryBudget.unlimited

        public init(_ address: EndpointAddress) { self.address = address }
    }

    private struct State {
        var socket: (any Channel)?
        var keeper: Task<Void, Never>?
        var isStopping = false
    }

    private let configuration: Configuration
    private let delegate: any ListenerDelegate
    private let group: any EventLoopGroup
    private let environment: Environment
    private let logger: Logger
    private let endpoints: MessageEndpointListener
    private let state = Mutex(State())

    public init(
        _ configuration: Configuration, delegate: any ListenerDelegate, group: any EventLoopGroup, environment: Environment, logger: Logger
    ) {
        self.configuration = configuration
        self.delegate = delegate
        self.group = group
        self.environment = environment
        self.logger = logger
        var limits = configuration.address.limits
        limits.connections = configuration.maxConnections
        let judge = Judge(address: configuration.address, user: configuration.user, delegate: delegate)
        endpoints = MessageEndpointListener(
            protocolType: .byteStream, limits: limits, environment: environment, memory: configuration.memory, context: { EventLoopContext(group.next()) },
            admit: { await judge.admit($0, $1) },
            serve: { accepted in
                guard let admission = accepted.context as? Judge.Admission else { return accepted.transport.drop() }
                delegate.accepted(accepted.transport, request: admission.request, context: admission.context)
            })
    }

    /// Without the arguments of a command, which may contain secrets.
    public var description: String { configuration.address.shortDescription }
    public var connectionCount: Int { endpoints.connectionCount }

    /// Binds the socket; or starts to open the device, or to run the command, again whenever it has closed.
    public func start() async throws {
        guard case .unix(let path) = configuration.address else {
            let keeper = environment.task { await self.keep() }
            state.withLock { $0.keeper = keeper }
            return
        }
        let descriptor = try UnixSocket.bind(path, mode: mode_t(configuration.mode & 0o777))
        do {
            let channel = try await ServerBootstrap(group: group)
                .childChannelInitializer { [weak self] channel in
                    guard let self else { return channel.close() }
                    return self.take(channel)
                }
                .withBoundSocket(descriptor)
                .get()
            state.withLock { $0.socket = channel }
        } catch {
            unlink(path)
            throw NetworkErrors.replicationError(error, target: "cannot listen on \(description)")
        }
    }

    private func take(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard let options = channel as? any SocketOptionProvider else { return channel.close() }
        let credentials: EventLoopFuture<PeerCredentials> = options.unsafeGetSocketOption(level: .socket, name: .init(rawValue: CInt(SO_PEERCRED)))
        let eventLoop = channel.eventLoop
        let path = configuration.address.description
        return credentials.flatMap { peer in
            let connection = StreamConnection("\(path) (uid \(peer.user), pid \(peer.process))", eventLoop: eventLoop, peerUser: peer.user) { _ in
                eventLoop.makeSucceededFuture(channel)
            }
            return Streams.prepare(channel, connection).map { self.endpoints.accept(connection, in: EventLoopContext(eventLoop)) }
        }
    }

    /// `struct ucred`.
    private struct PeerCredentials: Sendable {
        var process: pid_t = 0
        var user: uid_t = 0
        var group: gid_t = 0
    }

    // MARK: - One at a time

    /// `reopen_time`: seconds between attempts to open a device or to start a command; doubled after failures, up to the second value.
    private static let reopenSeconds = (first: 1, longest: 30)

    private func keep() async {
        var wait = Self.reopenSeconds.first
        var isQuiet = false
        while !Task.isCancelled {
            let eventLoop = group.next()
            let (closed, ended) = AsyncStream<Void>.makeStream()
            do {
                let began = environment.time.monotonicNanoseconds()
                let connection = try Streams(address: configuration.address, eventLoop: eventLoop, logger: logger, onClose: { ended.finish() }).connection()
                if !isQuiet { logger.info("waiting for a peer on \(configuration.address.shortDescription)") }
                endpoints.accept(connection, in: EventLoopContext(eventLoop), waitsForPeer: true)
                await withTaskCancellationHandler {
                    for await _ in closed {}
                } onCancel: {
                    endpoints.close(connection)
                }
                let lasted = environment.time.monotonicNanoseconds() &- began
                isQuiet = lasted < 10_000_000_000
                wait = isQuiet ? min(wait * 2, Self.reopenSeconds.longest) : Self.reopenSeconds.first
                // Opening a device shows that it works, but a command that exits at once would be restarted constantly.
                if case .serial = configuration.address { wait = Self.reopenSeconds.first }
            } catch {
                logger.log(level: isQuiet ? .debug : .warning, "\(NetworkErrors.describe(error)); tried again until it can")
                isQuiet = true
                wait = min(wait * 2, Self.reopenSeconds.longest)
            }
            try? await environment.time.sleep(seconds: wait)
        }
    }

    /// Stops accepting and ends every connection.
    public func stop(code: UInt16, reason: String) async {
        let (socket, keeper) = state.withLock { state in
            defer { (state.socket, state.keeper) = (nil, nil) }
            return (state.socket, state.keeper)
        }
        if let socket {
            try? await socket.close()
            if case .unix(let path) = configuration.address { unlink(path) }
        }
        await endpoints.closeAll(code: code, reason: reason)
        keeper?.cancel()
        await keeper?.value
    }
}

/// Passes a peer's offer to the listener's owner, like an upgrade request.
private struct Judge: Sendable {
    struct Admission: Sendable {
        var request: UpgradeRequest
        var context: (any Sendable)?
    }

    let address: EndpointAddress
    let user: String?
    let delegate: any ListenerDelegate

    func admit(_ offer: EndpointOffer, _ connection: any MessageEndpointConnection) async -> EndpointAnswer {
        guard let selected = Subprotocol.choose(of: offer.protocols, prefersVersions: offer.prefersVersions) else {
            return .refuse(status: 400, reason: "no common subprotocol; supported here: \(Subprotocol.names.joined(separator: ", "))")
        }
        let peerUser = (connection as? StreamConnection)?.peerUser
        let headers: HeaderList = offer.hasBothNames ? [Subprotocol.versionsHeader: Subprotocol.versionsSupported] : [:]
        let request = UpgradeRequest(
            database: offer.database, path: "", query: nil, headers: headers, remoteAddress: connection.peerDescription,
            origin: peerUser.map { "\(address.shortDescription) uid \($0)" } ?? address.shortDescription, offeredProtocols: offer.protocols,
            selectedProtocol: selected, basicCredentials: offer.username.map { BasicCredentials(username: $0, password: offer.password ?? "") },
            securePeer: nil, endpointUser: user ?? peerUser.map { UnixSocket.userName($0) })
        switch await delegate.authorize(request) {
        case .accept(let chosen, let context):
            return .accept(protocol: chosen ?? selected, context: Admission(request: request, context: context))
        case .refuse(let status, let reason, _): return .refuse(status: status, reason: reason)
        }
    }
}
