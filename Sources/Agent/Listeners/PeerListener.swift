import AgentConfiguration
import DocumentStore
import Logging
import NIOCore
import Replication
import Synchronization
import Transport

/// One configured listener: who may come in, and the peers that are in.
public final class PeerListener: ListenerDelegate {
    /// A connected peer, as status shows it.
    public struct Peer: Sendable {
        public var address: String
        public var user: String?
        public var since: Int64
        public var database: String
        public var subprotocol: String
        public var counts: ReplicationCounts
        public var isActive: Bool
    }

    private struct Connection {
        var peer: Peer
        var session: ReplicationSession
    }

    private struct State {
        var connections: [Int: Connection] = [:]
        var next = 0
        var isStopping = false
    }

    /// What an accepted request carries from the decision to the session.
    private struct Admission: Sendable {
        var database: Database
        var principal: Principal
    }

    public let settings: ListenerSettings
    private let databases: @Sendable (String) -> Database?
    private let policies: ListenerPolicies
    private let logger: Logger
    private let state = Mutex(State())
    private let socket = Mutex<WebSocketListener?>(nil)
    private let logins = Mutex(LoginGuard())

    public init(
        settings: ListenerSettings, policies: ListenerPolicies, databases: @escaping @Sendable (String) -> Database?, logger: Logger
    ) {
        self.settings = settings
        self.policies = policies
        self.databases = databases
        var logger = logger
        logger[metadataKey: "listener"] = "\(settings.name.value)"
        self.logger = logger
    }

    /// Binds the port and begins to accept.
    public func start(group: any EventLoopGroup) async throws {
        var configuration = WebSocketListener.Configuration(interface: settings.interface?.value, port: settings.port.value)
        configuration.limits.maxConnections = settings.maxConnections
        configuration.limits.maxConnectionsPerAddress = settings.maxConnectionsPerAddress
        configuration.limits.closeTime = .seconds(3)
        let bound = try await WebSocketListener.bind(configuration, delegate: self, group: group, logger: logger)
        socket.withLock { $0 = bound }
        logger.info("listening on \(bound.boundDescriptions.joined(separator: ", ")) without TLS (disable_tls)")
    }

    /// Stops for good (1001) or to come back (4001): peers are told by the WebSocket close code.
    public func stop(code: UInt16) async {
        let bound = socket.withLock { $0 }
        state.withLock { $0.isStopping = true }
        await bound?.stop(code: code, reason: code == 4001 ? "restarting, come back later" : "the listener stops")
        let sessions = state.withLock { $0.connections.values.map(\.session) }
        for session in sessions { await session.stop(code: code) }
    }

    // MARK: - Status

    /// `host:port` of each address in use.
    public var addresses: [String] { socket.withLock { $0?.boundDescriptions ?? [] } }
    public var port: Int { socket.withLock { $0?.port ?? 0 } }
    public var connectionCount: Int { socket.withLock { $0?.connectionCount ?? 0 } }

    public var peers: [Peer] {
        state.withLock { state in
            state.connections.sorted { $0.key < $1.key }.map { _, connection in
                var peer = connection.peer
                peer.counts = connection.session.counters.snapshot
                return peer
            }
        }
    }

    // MARK: - Connections

    public func authorize(_ request: UpgradeRequest) async -> UpgradeDecision {
        var principal = Principal.anonymous
        if let authenticator = policies.authenticator {
            guard let credentials = request.basicCredentials else { return Self.loginRequired }
            let origin = request.origin
            if let wait = logins.withLock({ $0.wait(origin, at: Self.now) }) { return Self.tooManyFailures(wait) }
            let verdict = await authenticator.authenticate(
                username: credentials.username, password: credentials.password, listener: settings.name.value,
                remote: request.remoteAddress)
            switch verdict {
            case .accepted(let accepted):
                logins.withLock { $0.succeeded(origin) }
                principal = accepted
                if principal.name == nil { principal.name = credentials.username }
            case .refused:
                let wait = logins.withLock { $0.failed(origin, at: Self.now) }
                logger.notice(
                    "login refused\(wait.map { "; logins from \(origin) are not looked at for \(Int($0.rounded(.up))) s" } ?? "")",
                    metadata: ["user": "\(credentials.username)", "peer": "\(request.remoteAddress)"])
                return Self.loginRequired
            case .failed(let failure):
                logger.error(
                    "the authenticator failed: \(failure.kind): \(failure.message)",
                    metadata: ["plugin": "\(failure.plugin)", "peer": "\(request.remoteAddress)"])
                return .refuse(status: 503, reason: "logins cannot be checked now")
            }
        }
        guard settings.databases.contains(where: { $0.value.utf8.elementsEqual(request.database.utf8) }),
            let database = databases(request.database)
        else {
            return .refuse(status: 404, reason: "there is no database \"\(request.database)\" here")
        }
        return .accept(context: Admission(database: database, principal: principal))
    }

    private static var loginRequired: UpgradeDecision {
        .refuse(
            status: 401, reason: "a user name and the right password are needed",
            headers: ["WWW-Authenticate": "Basic realm=\"Nightjar\""])
    }

    /// 429 is transient for Couchbase Lite: a rightful client behind the same address comes back.
    private static func tooManyFailures(_ wait: Double) -> UpgradeDecision {
        let seconds = Int(wait.rounded(.up))
        return .refuse(
            status: 429, reason: "too many failed logins from this address; try again in \(seconds) s", headers: ["Retry-After": "\(seconds)"])
    }

    /// Monotonic seconds.
    private static var now: Double {
        let now = NIODeadline.now().uptimeNanoseconds
        return Double(now) / 1e9
    }

    public func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) {
        guard let admission = context as? Admission else {
            transport.drop()
            return
        }
        let key = state.withLock { state in
            state.next += 1
            return state.next
        }
        var logger = logger
        logger[metadataKey: "peer"] = "\(request.remoteAddress)"
        let configuration = PassiveConfiguration(
            listener: settings.name.value, database: admission.database, principal: admission.principal,
            isReadOnly: settings.readOnly, pushFilter: policies.pushFilter, pullFilter: policies.pullFilter)
        let session = ReplicationSession(
            transport: transport, role: .passive(configuration),
            observer: SessionObserver(
                activityChanged: { [weak self] level in
                    self?.state.withLock { $0.connections[key]?.peer.isActive = level == .busy }
                },
                ended: { [weak self] end in self?.forget(key, end) }),
            logger: logger)
        let peer = Peer(
            address: request.remoteAddress, user: admission.principal.name, since: Timestamp.seconds(),
            database: admission.database.name, subprotocol: request.selectedProtocol, counts: ReplicationCounts(), isActive: true)
        state.withLock { $0.connections[key] = Connection(peer: peer, session: session) }
        logger.info("peer connected", metadata: ["database": "\(admission.database.name)"])
        Task { await session.start() }
    }

    private func forget(_ key: Int, _ end: SessionEnd) {
        let connection = state.withLock { $0.connections.removeValue(forKey: key) }
        guard let connection else { return }
        let counts = connection.session.counters.snapshot
        logger.info(
            "peer gone\(end.error.map { ": \($0)" } ?? "")",
            metadata: [
                "peer": "\(connection.peer.address)", "pulled_by_peer": "\(counts.pushed)", "pushed_by_peer": "\(counts.pulled)",
            ])
    }
}

/// What plugins decide for a listener.
public struct ListenerPolicies: Sendable {
    public var authenticator: (any PasswordAuthenticator)?
    /// What peers may pull.
    public var pushFilter: (any DocumentFilter)?
    /// What peers may push.
    public var pullFilter: (any DocumentFilter)?
}
