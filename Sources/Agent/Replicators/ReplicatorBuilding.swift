import AgentConfiguration
import Discovery
import Documents
import DocumentStore
import Environment
import Interfaces
import Logging
import MessageEndpoints
import NIOCore
import Replication
import TLS
import Transport

/// Creates replicators from their settings.
package enum ReplicatorBuilding {
    static func make(
        _ settings: ReplicatorSettings, database: Database, policies: PolicySource, security: ReplicatorSecurity?, local: LocalDatabases,
        group: any EventLoopGroup,
        limits: ReplicationLimits, memory: MemoryBudget, environment: Environment, logger: Logger, conflictObserver: @escaping ConflictObserver,
        purged: @escaping @Sendable (CollectionName, Int) -> Void = { _, _ in },
        wireLog: WireLog? = nil
    ) throws -> Replicator {
        let target = settings.target.value
        var collections: [CollectionReplication] = []
        let databaseSettings = policies.settings.database(named: settings.database.value)
        for wanted in settings.collections {
            let name = CollectionName(wanted.collection.value)
            let usedBy = "replicator \(settings.name.value)"
            let conflicts = try policies.conflictPolicy(
                wanted.conflictResolver ?? databaseSettings?.conflictResolver, database: database, usedBy: usedBy)
            var collection = CollectionReplication(
                collection: name,
                pushFilter: try wanted.pushFilter.map { try policies.pushFilter($0, usedBy: "\(usedBy) push_filter") },
                pullFilter: try wanted.pullFilter.map { try policies.pullFilter($0, usedBy: "\(usedBy) pull_filter") },
                resolver: conflicts.resolver)
            collection.shadow = conflicts.shadow
            if let reference = wanted.pushTransform {
                let transform = try policies.transform(reference, usedBy: "\(usedBy) push_transform")
                collection.pushFilter = TransformingFilter(collection.pushFilter, transform, limits: limits, unusualKeys: database.unusualKeys)
            }
            if let reference = wanted.pullTransform {
                let transform = try policies.transform(reference, usedBy: "\(usedBy) pull_transform")
                collection.pullFilter = TransformingFilter(collection.pullFilter, transform, limits: limits, unusualKeys: database.unusualKeys)
            }
            if !wanted.documentIDs.isEmpty {
                collection.documentIDs = try wanted.documentIDs.map { id in
                    do { return try DocumentID(id.value) } catch { throw ConfigurationProblem(at: id.position, "\(error)") }
                }
            }
            if !wanted.channels.isEmpty { collection.channels = wanted.channels.map(\.value) }
            collection.sourceFilter = SourceFilter(wanted)
            collection.skipsDeletions = wanted.skipDeletions
            collection.priority = wanted.priority.value
            collections.append(collection)
        }
        var configuration = ReplicatorConfiguration(
            name: settings.name.value, database: database, target: target.text,
            type: ReplicatorType(rawValue: settings.direction.rawValue) ?? .pushAndPull, isContinuous: settings.continuous,
            collections: collections,
            // 0 is the default.
            retry: RetryMachine.Settings(
                maximumAttempts: settings.maxAttempts.value == 0 ? nil : settings.maxAttempts.value,
                maximumWaitSeconds: settings.maxAttemptWaitTime.value == 0 ? nil : settings.maxAttemptWaitTime.value),
            autoPurge: settings.enableAutoPurge.value, limits: limits)
        configuration.remoteID = settings.remoteID?.value
        configuration.login = settings.authenticator.map(\.login) ?? ReplicatorAuthenticator.noLogin
        configuration.shownTarget = target.shown
        configuration.conflictObserver = conflictObserver
        configuration.purgeObserver = purged
        configuration.wireLog = wireLog
        configuration.retry.blockedWaitSeconds = settings.blockedWaitTime.value
        configuration.retry.maximumBlockedWaitSeconds = max(settings.blockedWaitTime.value, settings.maxBlockedWaitTime.value)
        // A serial device supports one connection, and running a command may be expensive.
        if target.scheme != .serial, target.scheme != .exec { configuration.silenceIntervalSeconds = settings.silenceInterval.value }
        // Between databases of one agent nothing crosses a wire: a delta would only cost the work of making it.
        configuration.usesDeltas = target.scheme != .local && settings.deltaSync && policies.settings.usesDeltas(settings.database.value)
        let reached = target.group.map { _ in
            GroupMemory(dataFolder: policies.settings.data.value, replicator: settings.name.value, logger: logger.with("replicator", settings.name.value))
        }
        if let last = reached?.reached(by: target.text).first { configuration.wasLast(at: last) }
        let connector: any TransportConnector =
            if target.scheme == .local {
                LocalConnector(
                    from: database.name, to: target.path, databases: local, limits: limits, memory: memory, group: group, environment: environment,
                    logger: logger)
            } else if let address = EndpointAddress(target) {
                endpoint(address, settings, group: group, environment, memory, logger) { database.hasVersions }
            } else {
                try networkConnector(
                    settings, security, group: group, environment, logger,
                    ownPeer: target.group.flatMap { _ in PeerIdentifier.current(data: policies.settings.data.value, environment.random) },
                    reached: reached,
                    choice: try settings.selectPeer.map { reference in
                        PeerChoice(
                            selector: try policies.peerSelector(reference, usedBy: "replicator \(settings.name.value) select_peer"), database: database.name,
                            replicator: settings.name.value, target: target.shown)
                    },
                    tokens: try settings.authenticator?.plugin.map { try policies.tokenSource($0, usedBy: "replicator \(settings.name.value) authenticator") }
                ) { database.hasVersions }
            }
        return Replicator(configuration: configuration, connector: connector, environment: environment, memory: memory, logger: logger)
    }

    /// For `ws:`, `wss:`, `http:`, `https:` and `discover:`.
    ///
    /// - Parameters:
    ///   - ownPeer: this agent's id on the local network; for a group target.
    ///   - reached: the listeners of the group that were reached, across restarts.
    ///   - choice: chooses a listener of the group, if a plugin does that.
    ///   - tokens: makes the tokens or sessions to log in with, if a plugin does.
    ///   - mayOpenSessions: false for a single connection, so that no session is left at the server.
    ///   - prefersVersions: whether the database already has version vectors.
    package static func networkConnector(
        _ settings: ReplicatorSettings, _ security: ReplicatorSecurity?, group: any EventLoopGroup, _ environment: Environment, _ logger: Logger,
        ownPeer: String?, reached: GroupMemory? = nil, choice: PeerChoice?, tokens: (any TokenSource)? = nil, mayOpenSessions: Bool = true, prefersVersions: @escaping @Sendable () -> Bool = { false }
    ) throws -> any TransportConnector {
        let interfaces = settings.networkInterfaces.map(\.value)
        // Sessions belong to the server, whichever interface reaches it.
        let common = try client(settings, security, environment, tokens: tokens, mayOpenSessions: mayOpenSessions)
        let peers = groupPeers(settings, ownPeer, reached, environment)
        func connector(_ interface: String?) throws -> any TransportConnector {
            var client = common
            client.networkInterface = interface
            switch settings.target.value.scheme {
            case .discover: return discovering(settings, client, peers, choice, group: group, environment, prefersVersions)
            case .http, .https: return try databaseClient(settings, client, security, group: group, environment)
            default:
                client.prefersVersions = prefersVersions
                return WebSocketClient(client, group: group, environment: environment)
            }
        }
        let connecting: any TransportConnector = if interfaces.count > 1 {
            InterfaceFallback(
                ways: try interfaces.map { .init(interface: $0, connector: try connector($0)) }, logger: logger.with("replicator", settings.name.value))
        } else { try connector(interfaces.first) }
        return security?.watching(connecting) ?? connecting
    }

    private static func endpoint(
        _ address: EndpointAddress, _ settings: ReplicatorSettings, group: any EventLoopGroup, _ environment: Environment, _ memory: MemoryBudget,
        _ logger: Logger, prefersVersions: @escaping @Sendable () -> Bool
    ) -> EndpointConnector {
        var connector = EndpointConnector(
            address, offer: offer(settings, prefersVersions: prefersVersions()), group: group, environment: environment, memory: memory,
            logger: logger.with("replicator", settings.name.value))
        connector.refresh = { offer(settings, prefersVersions: prefersVersions()) }
        return connector
    }

    /// What a listener at an endpoint learns about us.
    private static func offer(_ settings: ReplicatorSettings, prefersVersions: Bool) -> EndpointOffer {
        var offer = EndpointOffer(database: settings.target.value.database ?? "")
        if prefersVersions { offer.protocols = Subprotocol.namesVersionsFirst }
        if case .basic(let username, let password) = settings.authenticator { (offer.username, offer.password) = (username.value, password.current.revealed) }
        return offer
    }

    /// A listener that is found on the local network by its name, or any listener of a group.
    private static func discovering(
        _ settings: ReplicatorSettings, _ client: WebSocketClient.Configuration, _ peers: GroupPeers?, _ choice: PeerChoice?, group: any EventLoopGroup,
        _ environment: Environment, _ prefersVersions: @escaping @Sendable () -> Bool
    ) -> any TransportConnector {
        let target = settings.target.value
        var client = client
        client.prefersVersions = prefersVersions
        let found = DiscoveredClient(database: target.database, usesTLS: target.usesTLS, client: client) {
            WebSocketClient($0, group: group, environment: environment)
        }
        guard let peers else { return DiscoveryConnector(name: target.path, client: found, group: group) }
        return GroupConnector(peers: peers, client: found, choice: choice) { () async throws(DiscoveryError) in
            try await ServiceLookup.browse(seconds: GroupConnector.lookSeconds, group: group, environment: environment) { peers.hasReached($0) }
        }
    }

    /// A replicator's state for a group, whatever the interface on which it is found; nil if the target is not a group.
    private static func groupPeers(_ settings: ReplicatorSettings, _ own: String?, _ reached: GroupMemory?, _ environment: Environment) -> GroupPeers? {
        let target = settings.target.value
        guard let group = target.group else { return nil }
        let pins = settings.pinnedServerCertificates.compactMap { pin in if case .publicKey(let text) = pin { text.value } else { nil } }
        return GroupPeers(target: target.text, group: group, usesTLS: target.usesTLS, own: own, pins: Set(pins), time: environment.time, memory: reached)
    }

    /// A CouchDB database, or one behind a server that speaks its protocol.
    private static func databaseClient(
        _ settings: ReplicatorSettings, _ client: WebSocketClient.Configuration, _ security: ReplicatorSecurity?, group: any EventLoopGroup,
        _ environment: Environment
    ) throws -> any TransportConnector {
        var client = client
        if case .iam(let key, let url) = settings.authenticator {
            client.credentials = .iam(try tokens(key.value, url, settings, client, security, group: group, environment))
        }
        var connector = DatabaseClient(client, group: group, environment: environment)
        connector.createsTarget = settings.createTarget.value
        return connector
    }

    /// The token service's certificate is judged separately from the target's: by the system's authorities, `roots` and `crl`, as they are when a
    /// token is requested.
    private static func tokens(
        _ key: Secret, _ url: Located<String>, _ settings: ReplicatorSettings, _ client: WebSocketClient.Configuration, _ security: ReplicatorSecurity?,
        group: any EventLoopGroup, _ environment: Environment
    ) throws -> IAMTokens {
        do {
            let place = try EndpointURL(url.value)
            let (proxyLayer, networkInterface) = (client.proxy?.secureLayer, client.networkInterface)
            let way: @Sendable () throws -> IAMTokens.Way = {
                var way = IAMTokens.Way(proxy: settings.proxy.map { proxy($0, proxyLayer) }, networkInterface: networkInterface)
                guard place.isSecure else { return way }
                let trust = ServerAuthentication(
                    extraRoots: security?.rootCertificates ?? [], revocationLists: security?.revocationLists ?? [])
                way.secureLayer = .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: trust))))
                return way
            }
            // An error at this point is an error in the configuration.
            _ = try way()
            return IAMTokens(place, group: group, environment: environment, way: way) { key.current.revealed }
        } catch { throw ConfigurationProblem(at: url.position, "\(error)") }
    }

    private static func client(
        _ settings: ReplicatorSettings, _ security: ReplicatorSecurity?, _ environment: Environment, tokens: (any TokenSource)?, mayOpenSessions: Bool
    ) throws -> WebSocketClient.Configuration {
        let target = settings.target.value
        var client: WebSocketClient.Configuration
        // The address of a discovered listener is known only once it is found.
        let url = target.scheme == .discover ? "\(target.usesTLS ? "wss" : "ws")://discovered/" : target.text
        do { client = WebSocketClient.Configuration(url: try EndpointURL(url)) } catch {
            throw ConfigurationProblem(at: settings.target.position, "\(error)")
        }
        client.userAgent = "nightjar/\(AgentVersion.number)"
        client.heartbeat = .seconds(Int64(settings.heartbeat.value))
        client.limits.pongTime = .seconds(Int64(settings.pongTime))
        client.bandwidth = settings.bandwidth.map { Bandwidth(BandwidthCap($0), time: environment.time) }
        if case .basic = settings.authenticator { client.sessions = SessionCookies(time: environment.time) }
        client.opensSession = settings.openSession.value
        client.mayOpenSessions = mayOpenSessions
        // A server that also admits guests does not challenge clients.
        client.sendsCredentialsUpFront = !settings.challengeAuth
        let proxyLayer = try settings.proxy.flatMap(proxyLayer)
        fillIn(&client, settings, proxyLayer)
        if !settings.changingSecrets.isEmpty { client.refresh = { fillIn(&$0, settings, proxyLayer) } }
        if let tokens {
            client.credentials = .supplied(SuppliedTokens(tokens, replicator: settings.name.value, remote: target.shown, environment: environment))
        }
        client.secureLayer = security?.layer
        return client
    }

    /// Values that may come from files, read now.
    private static func fillIn(_ client: inout WebSocketClient.Configuration, _ settings: ReplicatorSettings, _ proxyLayer: SecureLayer?) {
        client.proxy = settings.proxy.map { proxy($0, proxyLayer) }
        client.headers = [:]
        for header in settings.headers { client.headers.add(header.name.value, header.value.current.revealed) }
        switch settings.authenticator {
        case .basic(let username, let password):
            client.credentials = .basic(BasicCredentials(username: username.value, password: password.current.revealed))
        case .bearer(let token): client.credentials = .bearer(token.value.current.revealed)
        case .session(let id, let cookie, _): client.cookies = "\(cookie)=\(id.current.revealed)"
        case .iam, .plugin: break // requested when they are needed
        case .identity, nil: break // presented in the TLS handshake
        }
    }

    private static func proxy(_ settings: ProxySettings, _ layer: SecureLayer?) -> ProxyServer {
        let url = settings.url.value
        let kind: ProxyServer.Kind =
            switch url.scheme {
            case .http: .http
            case .https: .https
            case .socks5: .socks5
            }
        var proxy = ProxyServer(kind, host: url.host, port: url.port)
        proxy.secureLayer = layer
        if let username = settings.username, let password = settings.password {
            proxy.credentials = BasicCredentials(username: username.value, password: password.value.current.revealed)
        }
        return proxy
    }

    /// TLS to the proxy itself; nil for clear text. Its certificate is judged separately from the target's.
    private static func proxyLayer(_ settings: ProxySettings) throws -> SecureLayer? {
        guard settings.url.value.scheme == .https else { return nil }
        do {
            let roots = try settings.roots.flatMap { try CertificateFile.read($0.value) }
            return .tls(client: CurrentContext(try TLSContext(client: TLSClientOptions(serverAuthentication: ServerAuthentication(extraRoots: roots)))))
        } catch { throw ConfigurationProblem(at: settings.roots.first?.position ?? settings.position, "proxy roots: \(error)") }
    }

    /// Nil if the connection to the target is clear text.
    package static func security(
        _ settings: ReplicatorSettings, dataFolder: String, environment: Environment, logger: Logger
    ) throws -> ReplicatorSecurity? {
        guard settings.target.value.usesTLS else { return nil }
        let security = try ReplicatorSecurity(settings, store: KeyStore(dataFolder: dataFolder, time: environment.time))
        security.identity?.logIdentityChanges(logger)
        if security.isUnsafe {
            logger.warning(
                """
                replicator \(settings.name.value) accepts ANY server certificate (unsafe_skip_server_certificate_verification): anybody \
                on the way can read and change everything
                """)
        }
        return security
    }
}

extension BandwidthCap {
    init(_ settings: BandwidthSettings) { self.init(send: settings.send, receive: settings.receive) }
}

extension CollectionName {
    package init(_ reference: CollectionReference) {
        self = (try? CollectionName(parsing: reference.description)) ?? .default
    }
}

extension EndpointAddress {
    /// Nil if the target is not a message endpoint.
    package init?(_ target: ReplicatorTarget) {
        switch target.scheme {
        case .unix: self = .unix(path: target.path)
        case .serial: self = .serial(device: target.path, speed: target.speed)
        case .exec: self = .exec(arguments: target.arguments)
        default: return nil
        }
    }
}
