import AgentConfiguration
import CouchDBServer
import DocumentStore
import Documents
import Environment
import Interfaces
import Logging
import NIOCore
import Replication
import Synchronization
import TLS
import Transport

/// One configured listener: who may connect, and the peers that are connected.
package final class PeerListener: ListenerDelegate {
    struct Connection {
        var peer: Peer
        var session: ReplicationSession
        var principal: Principal
        var proof: PeerAuthentication.Proof
        /// What the peer presented in the TLS handshake, its own certificate first.
        var chain: [Certificate]
        /// The session that the peer used to log in.
        var login: PeerSessions.Key?
    }

    struct State {
        /// For peers that have disconnected.
        var deltas = DeltaCounts()
        var connections: [Int: Connection] = [:]
        var next = 0
        /// False while it is bound but must not accept peers yet: while a reload is prepared.
        var isOpen = false
        var isStopping = false
        var generations = ReauthenticationGenerations()
        /// The file of users by which all who are there have been judged.
        var users: UserMarks?
        /// How often the certificate authorities or their revocation lists have changed.
        var authorities = 0
        var watch: Task<Void, Never>?
    }

    /// What ``authorize(_:)`` found out about a peer, for its session.
    private struct AdmittedPeer: Sendable {
        var database: Database
        var principal: Principal
        var proof: PeerAuthentication.Proof
        /// The number of the last change of authentication when the question was asked.
        var generation: Int
        var login: PeerSessions.Key?
    }

    package let settings: ListenerSettings
    let databases: @Sendable (String) -> Database?
    let limits: ReplicationLimits
    let memory: MemoryBudget
    private let proofs: ProofAccounts
    /// The part of its limits that this process's file descriptors allow.
    private let share: (connections: Int, http: Int)
    let policies: ListenerPolicies
    /// Nil with `disable_tls`.
    let security: ListenerSecurity?
    let authentication: PeerAuthentication
    let binding = ListenerBinding()
    let loginCache: LoginCache?
    let sessions: PeerSessions
    let environment: Environment
    let logger: Logger
    /// Documents that peers pushed and that could not be stored at the moment.
    let waiting = WaitingDocuments(notesPolicies: true)
    let refusals = ListenerRefusals()
    /// Detects peers that guess the contents of hidden documents.
    let hiddenConflicts: HiddenConflicts
    /// What the push filter held back from peers, and the reviews of it.
    let reviews: PushFilterReviews
    let refusedConnections = RefusedConnections()
    let answerShortages = AnswerShortages()
    /// The CouchDB API, if the settings enable it.
    let couch = Mutex<CouchServer?>(nil)
    let callers = CouchCallers()
    let state = Mutex(State())
    private let socket = Mutex<WebSocketListener?>(nil)
    /// Replaces the socket if the settings name an endpoint.
    private let endpoint = Mutex<EndpointListener?>(nil)

    init(
        settings: ListenerSettings, share: (connections: Int, http: Int), policies: ListenerPolicies, security: ListenerSecurity?,
        databases: @escaping @Sendable (String) -> Database?, logins: LoginQueue, limits: ReplicationLimits, memory: MemoryBudget,
        environment: Environment, logger: Logger
    ) {
        self.environment = environment
        self.settings = settings
        self.share = share
        loginCache = policies.authenticator.map { LoginCache($0, environment: environment) }
        var policies = policies
        policies.authenticator = loginCache
        self.policies = policies
        self.security = security
        self.databases = databases
        self.limits = limits
        self.memory = memory
        proofs = ProofAccounts(limits)
        var logger = logger
        logger[metadataKey: "listener"] = "\(settings.name.value)"
        self.logger = logger
        sessions = PeerSessions(environment) { [logger] in logger.warning("\(PeerListener.outnumbered($1))", metadata: ["user": "\($0.principal.name ?? "")"]) }
        hiddenConflicts = HiddenConflicts(environment.time) { [logger] in logger.warning("\(PeerListener.guessing($0))") }
        reviews = PushFilterReviews(listener: settings.name.value, logger)
        authentication = PeerAuthentication(
            listener: settings.name.value, policies: policies, checksCertificates: security?.checksClients ?? false, queue: logins,
            time: environment.time, logger: logger)
    }

    /// Binds the port; until ``open()``, peers are asked to come back later.
    package func start(group: any EventLoopGroup) async throws {
        if let target = settings.endpoint?.value, let address = EndpointAddress(target) { return try await start(at: address, group) }
        var configuration = WebSocketListener.Configuration(interface: settings.interface?.value, port: settings.port.value)
        configuration.limits.maxConnections = share.connections
        configuration.limits.maxHTTPConnections = share.http
        configuration.limits.http.maxHandshakes = min(configuration.limits.http.maxHandshakes, share.connections + share.http)
        configuration.limits.http.maxConnectionsPerAddress = settings.maxConnectionsPerAddress
        configuration.limits.closeTime = .seconds(3)
        configuration.memory = memory
        (configuration.heartbeat, configuration.limits.pongTime) = (.seconds(Int64(settings.heartbeat)), .seconds(Int64(settings.pongTime)))
        configuration.secureLayer = security?.layer
        configuration.bandwidth = ListenerBandwidth(
            all: settings.bandwidth.map { BandwidthCap($0) }, each: settings.connectionBandwidth.map { BandwidthCap($0) }, time: environment.time)
        startCouch()
        configuration.refused = { [refusedConnections, time] in refusedConnections.note($0, from: $1, now: time.wallSeconds()) }
        configuration.newCorrelationID = { [random = environment.random] in CorrelationID.make(random) }
        let bound = try await WebSocketListener.bind(configuration, delegate: self, group: group, logger: logger)
        socket.withLock { $0 = bound }
        if share.connections < settings.maxConnections {
            logger.warning(
                "max_connections is \(share.connections) here, not \(settings.maxConnections): RLIMIT_NOFILE allows no more; raise it (LimitNOFILE= in systemd)")
        }
        let addresses = bound.boundDescriptions.joined(separator: ", ")
        if let security {
            logger.info(
                "listening on \(addresses)",
                metadata: ["identity": "\(security.identity.label)", "sha256": "\(security.identity.current.leaf.sha256)"])
        } else {
            logger.warning("listening on \(addresses) without TLS (disable_tls): anybody on the way can read and change everything")
        }
    }

    /// If already bound, follows the addresses of its interface; otherwise the same as ``start(group:)``.
    ///
    /// - Throws: why it does not listen, or not on all addresses.
    func startOrFollow(group: any EventLoopGroup) async throws {
        guard let bound = socket.withLock({ $0 }) else { return try await start(group: group) }
        let change = await bound.followInterface()
        if !change.bound.isEmpty { logger.notice("its interface has other addresses: listening on \(change.bound.joined(separator: ", "))") }
        if !change.closed.isEmpty { logger.notice("its interface has other addresses: no longer listening on \(change.closed.joined(separator: ", "))") }
        if let obstacle = change.obstacle { throw obstacle }
    }

    /// Whether it is bound to an interface, whose addresses may change.
    var followsInterface: Bool { socket.withLock { $0?.followsInterface ?? false } }
    /// Whether it is bound to at least one address.
    var isBound: Bool { socket.withLock { $0?.boundAddresses.isEmpty == false } }

    private func start(at address: EndpointAddress, _ group: any EventLoopGroup) async throws {
        var configuration = EndpointListener.Configuration(address)
        configuration.user = settings.user?.value
        if let mode = settings.mode?.value { configuration.mode = UInt32(mode) }
        configuration.maxConnections = share.connections
        configuration.memory = memory
        let listener = EndpointListener(configuration, delegate: self, group: group, environment: environment, logger: logger)
        try await listener.start()
        endpoint.withLock { $0 = listener }
        logger.info("listening on \(listener.description)")
    }

    /// Starts accepting peers.
    func open() {
        // Subscribed here, so that a change that comes before the loop below starts is not lost.
        let changes = authentication.changes()
        let watch = changes.map { changes in
            Task { [weak self] in
                var round: Task<Void, Never>?
                for await _ in changes {
                    // A user affected by a further change of the file must not wait until the others have been judged.
                    if self?.policies.users() != nil { round?.cancel() }
                    await round?.value
                    round = Task { [weak self] in
                        guard let self else { return }
                        await self.reauthenticate()
                    }
                }
                round?.cancel()
            }
        }
        let users = policies.users().map { UserMarks($0) }
        state.withLock { state in
            state.isOpen = true
            state.users = users
            state.watch = watch
        }
        reviews.start(self)
    }

    /// Stops permanently (1001) or asks peers to come back (4001); they learn which from the close code, and why (nil: what is usual with the code).
    package func stop(code: UInt16, reason: String? = nil) async {
        await stopAccepting()
        await endConnections(code: code, reason: reason)
    }

    /// Stops accepting peers: another listener may bind the port when this returns. An endpoint stays occupied until its connections have ended.
    func stopAccepting() async {
        await binding.giveUp()
        let bound = socket.withLock { $0 }
        state.withLock { state in
            state.isStopping = true
            state.watch?.cancel()
            state.watch = nil
        }
        callers.close()
        await reviews.stop()
        await bound?.stopAccepting()
    }

    /// After ``stopAccepting()``: returns when all connections have ended, at the latest when unresponsive peers have had their time.
    ///
    /// - Parameter sessionsFirst: sessions end at once, and only their sockets wait for the peers.
    func endConnections(code: UInt16, reason: String? = nil, sessionsFirst: Bool = false) async {
        let reason = reason ?? (code == 4001 ? "restarting, come back later" : "the listener stops")
        if sessionsFirst { await endSessions(code, reason) }
        let bound = socket.withLock { $0 }
        await bound?.stop(code: code, reason: reason)
        await endpoint.withLock { $0 }?.stop(code: code, reason: reason)
        await endSessions(code, reason)
        endpoint.withLock { $0 = nil }
        // The socket refers to this listener: if the reference were not cleared, the plugins in use here would stay in use.
        socket.withLock { $0 = nil }
    }

    private func endSessions(_ code: UInt16, _ reason: String) async {
        let sessions = state.withLock { $0.connections.values.map(\.session) }
        for session in sessions { await session.stop(code: code, reason: reason) }
    }

    /// How many connections it accepts.
    package var maxConnections: Int { share.connections }

    /// `host:port` of each address under which peers can reach it.
    package var addresses: [String] { endpoint.withLock { $0 }.map { [$0.description] } ?? socket.withLock { $0?.reachableDescriptions ?? [] } }
    package var port: Int { socket.withLock { $0?.port ?? 0 } }
    package var connectionCount: Int { endpoint.withLock { $0 }?.connectionCount ?? socket.withLock { $0?.connectionCount ?? 0 } }

    package var peers: [Peer] {
        state.withLock { state in
            state.connections.sorted { $0.key < $1.key }.map { _, connection in
                var peer = connection.peer
                peer.counts = connection.session.counters.snapshot
                peer.stalls = connection.session.counters.stalls
                return peer
            }
        }
    }

    /// The peers of a database, each with the state of a document for that peer.
    func standings(of id: DocumentID, in collection: CollectionName, database: String) async throws -> [(peer: Peer, standing: PeerDocumentState)] {
        let found = state.withLock { $0.connections.sorted { $0.key < $1.key }.map(\.value) }
        var standings: [(peer: Peer, standing: PeerDocumentState)] = []
        for each in found where each.peer.database.utf8.elementsEqual(database.utf8) {
            standings.append((each.peer, try await each.session.standing(of: id, in: collection)))
        }
        return standings
    }

    package func authorize(_ request: UpgradeRequest) async -> UpgradeDecision {
        let (isOpen, generations) = state.withLock { ($0.isOpen, $0.generations) }
        guard isOpen else { return .refuse(status: 503, reason: "the listener is starting", headers: ["Retry-After": "1"]) }
        let principal: Principal
        let proof: PeerAuthentication.Proof
        var login: PeerSessions.Key?
        if mayUseCookies(request.headers), let found = sessions.find(request.headers.first("Cookie"), request.database),
            let session = await admitted(by: found, remote: request.remoteAddress)
        {
            (principal, proof, login) = (session.principal, session.proof, found.key)
        } else {
            switch await authentication.authenticate(request) {
            case .accepted(let accepted, let shown): (principal, proof) = (accepted, shown)
            case .refused(let decision): return decision
            }
        }
        // An endpoint has no path, so no database need be named if there is only one.
        let name = request.database.isEmpty && settings.databases.count == 1 ? settings.databases[0].value : request.database
        guard serves(name), let database = databases(name) else {
            return .refuse(status: 404, reason: name.isEmpty ? "this listener serves several databases: name one" : "there is no database \"\(name)\" here")
        }
        // Two agents of this kind both keep version vectors; over another protocol, the versions of one would be of no use to the other.
        let isOurs = request.headers.first(Subprotocol.versionsHeader) != nil && request.offeredProtocols.contains(Subprotocol.generation4.rawValue)
        let chosen = isOurs && database.hasVersions ? Subprotocol.generation4.rawValue : nil
        return .accept(
            protocol: chosen,
            context: AdmittedPeer(database: database, principal: principal, proof: proof, generation: generations.last(for: proof), login: login))
    }

    // MARK: - Logins

    /// Whether it accepts peers and is not stopping.
    var isOpen: Bool { state.withLock { $0.isOpen && !$0.isStopping } }

    /// The number of the authenticator's last change.
    var authenticatorGeneration: Int { state.withLock { $0.generations.authenticator } }

    func authenticate(_ request: UpgradeRequest) async -> PeerAuthentication.Outcome {
        guard state.withLock({ $0.isOpen }) else {
            return .refused(.refuse(status: 503, reason: "the listener is starting", headers: ["Retry-After": "1"]))
        }
        return await authentication.authenticate(request)
    }

    func wouldAdmit(_ proof: PeerAuthentication.Proof, as principal: Principal, remote: String) async -> Bool {
        await authentication.accepts(proof, as: principal, remote: remote)
    }

    // MARK: - Connections

    /// A peer that ``authorize(_:)`` admitted is connected. It gets a session, which takes its messages from here on; the listener only observes
    /// the session (`SessionObserver`), and ends it if the peer is no longer admitted.
    package func accepted(_ transport: any MessageTransport, request: UpgradeRequest, context: (any Sendable)?) {
        guard let admission = context as? AdmittedPeer else {
            transport.drop()
            return
        }
        let key = state.withLock { state in
            state.next += 1
            return state.next
        }
        var logger = logger
        logger[metadataKey: "peer"] = "\(request.remoteAddress)"
        if let correlation = transport.correlationID { logger[metadataKey: "correlation"] = "\(correlation)" }
        var configuration = passiveConfiguration(
            admission.database, admission.principal, subprotocol: transport.subprotocol ?? Subprotocol(rawValue: request.selectedProtocol) ?? .generation3)
        let who = admission.principal.name ?? Self.host(of: request.remoteAddress)
        (configuration.proofs, configuration.proofAccount) = (proofs, admission.principal.name.map { "user \($0)" } ?? request.origin)
        configuration.origin = request.origin
        let session = ReplicationSession(
            transport: transport, role: .passive(configuration),
            observer: SessionObserver(
                activityChanged: { [weak self, environment] level in
                    let now = environment.time.wallSeconds()
                    self?.state.withLock {
                        // It was idle until now, or becomes idle.
                        if $0.connections[key]?.peer.isActive == false || level == .idle { $0.connections[key]?.peer.lastIdle = now }
                        $0.connections[key]?.peer.isActive = level == .busy
                    }
                },
                documents: { [waiting, refusals, environment, logger, user = admission.principal.name, name = admission.database.name] in
                    RefusalLog.note($0, user: user, database: name, logger)
                    waiting.note($0.filter { $0.direction == .pull }, at: environment.time.wallSeconds())
                    refusals.note($0, peer: who, database: name, now: environment.time.wallSeconds())
                },
                ended: { [weak self] end in self?.forget(key, end) }),
            environment: environment, memory: memory, logger: logger)
        let chain = (request.securePeer?.certificates ?? []).compactMap { try? Certificate(der: $0) }
        let peer = Peer(
            address: request.remoteAddress, user: admission.principal.name, since: environment.time.wallSeconds(),
            database: admission.database.name, subprotocol: configuration.subprotocol.rawValue, counts: ReplicationCounts(), isActive: true,
            correlationID: transport.correlationID, tls: request.securePeer?.summary,
            certificate: chain.first)
        let isStale = state.withLock { state in
            state.connections[key] = Connection(peer: peer, session: session, principal: admission.principal, proof: admission.proof, chain: chain,
                login: admission.login)
            return state.generations.last(for: admission.proof) != admission.generation
        }
        logger.info("peer connected", metadata: ["database": "\(admission.database.name)", "protocol": "\(configuration.subprotocol.rawValue)"])
        Task {
            await session.start()
            await noteMissingChannels(admission.principal, in: admission.database, logger)
            if isStale {
                var round = ReauthenticationRound(authentication)
                await reauthenticate(key, &round)
            }
            // The authorities may have changed since the handshake, and the session may have ended since it was looked up.
            await disconnectUnlessVouchedFor(key)
            if let login = admission.login, !sessions.has(login) { await disconnectSession(login) }
        }
    }

    /// Delta statistics over all peers since the start.
    var deltas: DeltaCounts {
        let (ended, sessions) = state.withLock { ($0.deltas, $0.connections.values.map(\.session)) }
        return sessions.reduce(ended) { $0 + $1.counters.snapshot.deltas }
    }

    private func forget(_ key: Int, _ end: SessionEnd) {
        guard let connection = state.withLock({ $0.connections.removeValue(forKey: key) }) else { return }
        let counts = connection.session.counters.snapshot
        state.withLock { $0.deltas = $0.deltas + counts.deltas }
        refusals.note(end, of: Self.host(of: connection.peer.address), now: environment.time.wallSeconds())
        logger.info(
            "peer gone\(end.error.map { ": \($0)" } ?? "")", metadata: [
                "peer": "\(connection.peer.address)", "correlation": "\(connection.peer.correlationID ?? "")", "pulled_by_peer": .stringConvertible(counts.pushed), "pushed_by_peer": .stringConvertible(counts.pulled),
            ])
    }
}
