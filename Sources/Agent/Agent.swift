import AgentConfiguration
import Documents
import Discovery
import DocumentStore
import Encodings
import Environment
import Glibc
import Interfaces
import Logging
import NIOCore
import NIOPosix
import PluginHost
import Replication
import Synchronization
import TLS
import Transport

/// The agent: databases, plugins, listeners and replicators of one configuration; started in order, stopped in reverse order, and reconfigured while
/// they run.
package actor Agent {
    package nonisolated let logs: LogSink
    nonisolated let group: MultiThreadedEventLoopGroup
    nonisolated let startedAt: Int64
    nonisolated let environment: Environment
    nonisolated let descriptorLimit = DescriptorBudget.raisedLimit()
    nonisolated let openBlobs: OpenBlobs
    private nonisolated let uptimeStart: UInt64
    nonisolated let shared: Mutex<Shared>
    nonisolated let meters = PluginMeters()
    nonisolated let stopProgress = StopProgress()

    /// State that status and requests read without waiting for the actor.
    struct Shared {
        var settings: AgentSettings
        var databases: [String: Database] = [:]
        var listeners: [PeerListener] = []
        var replicators: [Replicator] = []
        /// By the replicator's name; kept across a reload.
        var replicatorHalts: [String: ReplicatorHalt] = [:]
        /// By the replicator's name; clear-text replicators have none.
        var replicatorSecurity: [String: ReplicatorSecurity] = [:]
        /// By the replicator's name; only for those with secrets in files.
        var replicatorSecrets: [String: ReplicatorSecrets] = [:]
        var plugins: PluginHost?
        /// What the fleet's documents have supplied, kept across configuration changes.
        var fleetStore: FleetStore?
        var fleet: FleetService?
        var conflictPolicies: [String: ConflictPolicy] = [:]
        /// By the database's name: the sync function that may reject local writes.
        var validations: [String: any SyncFunction] = [:]
        var isReady = false
        /// Why the last reload was refused, and since when; nil if it succeeded.
        var refusedReload: (text: String, since: Int64)?
        /// Changed settings that take effect only at the next start.
        var waitingForStart: [String] = []
    }

    nonisolated let conflicts = EventHub<ConflictEvent>(kept: EventQueue.maximumWaiting)
    /// Independent of any particular plugin host: a reload may create the first one, or replace it.
    nonisolated let pluginEvents = EventHub<PluginEvent>(kept: EventQueue.maximumWaiting)
    nonisolated let roster = ReplicatorRoster()
    nonisolated let observers = ReplicatorObservers()
    nonisolated let leaving = ClosingListeners()

    nonisolated let log: Logger
    nonisolated let attentionTimes = AttentionTimes()
    nonisolated let users = UsersExamination()
    nonisolated let nextStart: NextStart
    let reloads = SerialGate()
    private(set) var isStopping = false
    /// Held until the process ends or the agent is released, so longer than the admin socket exists.
    var folderLock: DataFolderLock?
    var keepers: [ConflictKeeper] = []
    var pluginWatch: Task<Void, Never>?
    var pluginStates: PluginStateFiles?
    private var maintenance: Task<Void, Never>?
    private var securityWatch: Task<Void, Never>?
    private var logWatch: Task<Void, Never>?
    private var attentionWatch: Task<Void, Never>?
    private var networkWatch: NetworkWatch?
    private var remembering: Task<Void, Never>?
    var fleetWatch: Task<Void, Never>?
    nonisolated let channels: ChannelKeeper
    /// Shared by all listeners: one password hash at a time.
    private nonisolated let logins = LoginQueue()

    nonisolated let records: ReplicatorRecords

    /// Records who did what.
    nonisolated let audit: AuditLog

    nonisolated let refusedLogins = RefusedLogins()
    nonisolated let timeFloor: TimeFloor
    nonisolated let ownIdentity: OwnIdentity

    nonisolated let pendingCounts: PendingCounts

    /// Watches the disk space.
    nonisolated let disks: DiskGuard
    private var diskWatch: Task<Void, Never>?
    private var ageWatch: Task<Void, Never>?
    private var expiryWatch: Task<Void, Never>?

    /// Announces listeners on the local network.
    nonisolated let announcer: ServiceAnnouncer
    private var announcing: Task<Void, Never>?

    nonisolated let schedules = Schedules()

    /// Bounds the memory held for peers, over all connections.
    nonisolated let memory: MemoryBudget

    /// - Parameter environment: supplies time and randomness, and runs jobs.
    package init(settings: AgentSettings, logs: LogSink, environment: Environment) {
        self.environment = environment
        nextStart = NextStart(environment: environment)
        uptimeStart = environment.time.monotonicNanoseconds()
        pendingCounts = PendingCounts(environment.time)
        self.logs = logs
        logs.apply(settings.log)
        group = MultiThreadedEventLoopGroup(numberOfThreads: max(1, min(System.coreCount, 4)))
        startedAt = environment.time.wallSeconds()
        records = ReplicatorRecords(dataFolder: settings.data.value)
        disks = DiskGuard(dataFolder: settings.data.value, time: environment.time, logger: logs.logger(.database))
        ownIdentity = OwnIdentity(dataFolder: settings.data.value)
        timeFloor = TimeFloor(dataFolder: settings.data.value, time: environment.time)
        audit = AuditLog(dataFolder: settings.data.value, time: environment.time, logger: logs.logger(.http))
        channels = ChannelKeeper(Resyncs(time: environment.time, audit: audit, logger: logs.logger(.listener)), time: environment.time)
        shared = Mutex(Shared(settings: settings))
        openBlobs = OpenBlobs(DescriptorBudget(limit: descriptorLimit, settings: settings).blobs)
        announcer = ServiceAnnouncer(group: group, environment: environment, logger: logs.logger(.listener))
        memory = MemoryBudget(limit: settings.limits.memory, time: environment.time, processMemory: { System.memoryForPeers })
        log = logs.logger(.database)
    }

    // MARK: - Start and stop

    /// Opens, loads, binds and starts everything. If an error occurs, what has already started is stopped again.
    package func start() async throws {
        do {
            let settings = shared.withLock { $0.settings }
            let obstacles = ConfigurationCheck.obstacles(settings, environment)
            guard obstacles.isEmpty else { throw ConfigurationProblems(obstacles) }
            for problem in ConfigurationCheck.tlsFiles(settings, .dates, environment) { logs.logger(.listener).error("\(problem)") }
            try Folders.make(settings.data.value)
            folderLock = try await lockWhenFree(settings.data.value)
            // Before replicators and listeners begin, although the port is bound last.
            if let admin = settings.admin, let obstacle = AdminPort.obstacle(admin, besides: AgentSettings()) { throw AgentError(.failed, "\(obstacle)") }
            // If the disk is full, releases the reserve so that the databases can be opened.
            disks.apply(settings.disk)
            ownIdentity.lookForEarlier(settings.databases)
            for database in settings.databases {
                try await openWhenFree(database, settings)
                // Gives a stop request a chance to run.
                await Task.yield()
                try throwIfStopping()
            }
            try await loadPlugins(settings)
            try throwIfStopping()
            try preparePolicies(settings, changed: [])
            for listener in settings.listeners { try await startListener(listener) }
            ownIdentity.note()
            for replicator in settings.replicators { try await startReplicator(replicator) }
            forgetHubs(settings)
            try await keep(settings)
            try throwIfStopping()
            maintenance = Task { [weak self] in await self?.maintain() }
            logWatch = Task { [logs] in await logs.watchFolded() }
            attentionWatch = Task { [weak self] in await self?.watchAttention() }
            diskWatch = Task { [weak self] in await self?.watchDisks() }
            schedules.follow { [weak self] in await self?.watchSchedules() }
            ageWatch = Task { [weak self] in await self?.watchAges() }
            expiryWatch = Task { [weak self] in await self?.watchExpiries() }
            securityWatch = Task { [watch = tlsFiles] in await watch.run() }
            networkWatch = watchNetwork()
            remembering = Task { [weak self] in await self?.rememberPeriodically() }
            announcing = Task { [announcer] in await announcer.run { [weak self] in self?.announcements() ?? [] } }
            try startFleet(settings)
            shared.withLock { $0.isReady = true }
            logStart(settings)
        } catch {
            await stop()
            throw error
        }
    }

    /// A stop was requested before the agent is ready: ``start()`` undoes what it has done and throws ``StartAbandoned``.
    func abandonStart() {
        guard !isReady else { return }
        isStopping = true
        plugins?.beginShutdown()
    }

    func throwIfStopping() throws(StartAbandoned) { if isStopping { throw StartAbandoned() } }

    /// Stops everything within about five seconds: peers are asked to come back later (4001), and databases are closed.
    package func stop() async {
        isStopping = true
        stopProgress.begin("conflicts that are still to be decided")
        let state = shared.withLock { state in
            state.isReady = false
            return state
        }
        state.plugins?.beginShutdown()
        pluginWatch?.cancel()
        maintenance?.cancel()
        securityWatch?.cancel()
        logWatch?.cancel()
        attentionWatch?.cancel()
        fleetWatch?.cancel()
        diskWatch?.cancel()
        ageWatch?.cancel()
        schedules.end()
        expiryWatch?.cancel()
        networkWatch?.stop()
        remembering?.cancel()
        // Announces the departure before the ports are closed.
        announcing?.cancel()
        await Deadline.run(seconds: StopLimits.goodbye, environment.time) { [announcing] in await announcing?.value }
        defer { logs.reportFolded(all: true) }
        for keeper in keepers { await keeper.stop() }
        await channels.stop()
        stopProgress.begin("listeners and replicators")
        await Deadline.run(nanoseconds: stopProgress.timeForConnections(now: environment.time.monotonicNanoseconds()), environment.time) { [leaving] in
            await withTaskGroup(of: Void.self) { tasks in
                for replicator in state.replicators { tasks.addTask { await replicator.stop() } }
                for listener in state.listeners { tasks.addTask { await listener.stop(code: 4001) } }
                tasks.addTask { await leaving.wait() }
            }
        }
        stopProgress.begin("plugins")
        await observers.end(state.replicators, within: stopProgress.timeForObservers(now: environment.time.monotonicNanoseconds()))
        remember(state.replicators)
        for shadow in state.conflictPolicies.values.map(\.shadow) + state.replicators.flatMap({ $0.configuration.collections.map(\.shadow) }) {
            shadow?.stop()
        }
        for keeper in keepers { keeper.stopShadow() }
        await state.plugins?.shutdown()
        pluginStates?.flush()
        for (name, database) in state.databases {
            stopProgress.begin("database \(name)")
            database.close()
        }
        shared.withLock {
            $0.databases = [:]
            $0.listeners = []
            $0.replicators = []
        }
        folderLock?.noteCleanEnd()
    }

    /// What runs from now on, and whether the last run was cut short.
    private func logStart(_ settings: AgentSettings) {
        let parts = [(settings.databases.count, "database"), (settings.listeners.count, "listener"), (settings.replicators.count, "replicator")]
        let before = folderLock?.lastRunEndedCleanly.map { $0 ? "; the last run ended cleanly" : "; the last run did not end cleanly: it was killed, crashed, or lost its power" }
        let configuration = settings.file.map { "configuration \($0)" } ?? "no configuration file"
        log.info("nightjar \(AgentVersion.number) started: \(configuration), data \(settings.data.value), \(parts.map { Plural.count($0, $1) }.joined(separator: ", "))\(before ?? "")")
    }

    func open(_ wanted: DatabaseSettings, _ settings: AgentSettings) throws {
        let database = try makeDatabase(wanted, settings)
        shared.withLock { $0.databases[wanted.name.value] = database }
    }

    nonisolated func makeDatabase(_ wanted: DatabaseSettings, _ settings: AgentSettings) throws -> Database {
        var options = DatabaseOptions(wanted)
        options.maxBlobBytes = UInt64(settings.limits.maxBlobBytes)
        options.openBlobs = openBlobs
        options.sharePageCaches(databases: settings.databases.count, memory: settings.limits.memory)
        options.onProblem = { [log, name = wanted.name.value] in log.error("\($0.problem(of: name))") }
        options.onLargeDocument = { [log, large = options.largeDocuments, name = wanted.name.value] in
            log.warning("document \($0.id) of \($0.collection) was stored with \($0.bytes) bytes, more than warn_document_bytes (\(large.limit))", metadata: ["database": "\(name)"])
        }
        let folder = "\(settings.data.value)/\(wanted.name.value).nightjar"
        disks.watch(wanted, folder: folder, &options)
        let database: Database
        do throws(StoreError) {
            database = try Database.open(folder: folder, name: wanted.name.value, options: options, environment: environment)
        } catch { throw AgentUser.explained(error, data: settings.data.value) }
        do {
            if wanted.quota != nil { try database.blobs.count() } else { countBlobs(of: database) }
            for collection in wanted.collections { _ = try database.createCollection(CollectionName(collection.value)) }
        } catch {
            database.close()
            throw error
        }
        if let left = database.unfinishedRestore() { log.warning("database \(wanted.name.value): a nightjar restore has not finished, and this is the one from before: run it again, or remove \(left)") }
        log.info("database open", metadata: ["database": "\(wanted.name.value)", "folder": "\(database.folder)"])
        return database
    }

    /// Runs in the background: no write is refused meanwhile, so nothing has to wait for it.
    private nonisolated func countBlobs(of database: Database) {
        Task { [log] in
            do { try await database.blobs.countConcurrently() } catch StoreError.closed {
                // They are counted again the next time the database is opened.
            } catch { log.error("database \(database.name): its blobs could not be counted: \(error)") }
        }
    }

    func policies() -> PolicySource {
        shared.withLock { PolicySource(settings: $0.settings, plugins: $0.plugins) }
    }

    /// Creates a listener, without binding it.
    nonisolated func makeListener(_ settings: ListenerSettings, _ source: PolicySource) throws -> PeerListener {
        let name = "listener \(settings.name.value)"
        let hook = settings.authenticatorHook(plugins?.list() ?? [])
        let password = hook == .authenticatePassword ? settings.authenticator : nil
        let certificate = hook == .authenticateCertificate ? settings.authenticator : nil
        return PeerListener(
            settings: settings, share: DescriptorBudget(limit: descriptorLimit, settings: source.settings).share(of: settings),
            policies: ListenerPolicies(
                authenticator: try password.map { try source.passwordAuthenticator($0, usedBy: "\(name) authenticator") },
                certificateAuthenticator: try certificate.map { try source.certificateAuthenticator($0, usedBy: "\(name) authenticator") },
                tokens: try settings.tokens.map { try TokenAuthenticator.make($0, listener: settings.name.value, time: environment.time, floor: timeFloor) },
                pushFilter: try settings.pushFilter.map { try source.pushFilter($0, usedBy: "\(name) push_filter") },
                pullFilter: try settings.pullFilter.map { try source.pullFilter($0, usedBy: "\(name) pull_filter") },
                syncFunction: try settings.sync.map { try source.syncFunction($0, usedBy: "\(name) sync") },
                conflicts: { [weak self] in self?.conflictPolicy($0) ?? ConflictPolicy() }, conflictObserver: conflictObserver,
                leavesConflicts: decidesForReplicators,
                refusedLogin: { [weak self] in self?.noteRefusedLogin(at: settings.name.value, user: $0, from: $1) },
                users: { [weak self] in self?.usersFile(of: settings).map { UserLines($0.bytes) } },
                usesDeltas: { source.settings.usesDeltas($0) }, namedFilter: source.namedFilters(usedBy: "\(name) _changes"),
                listenersOf: { [weak self] in self?.settings.listeners(of: $0) ?? [settings.name.value] }, wireLog: logs.wireLog, queryLogger: logs.logger(.query),
                fleetPublishers: { [weak self] in Set((self?.settings.fleet?.publishers ?? []).map { ExactName($0) }) }),
            security: settings.usesTLS
                ? try ListenerSecurity(settings, store: KeyStore(dataFolder: source.settings.data.value, time: environment.time), own: ownIdentity.memory, logger: logs.logger(.listener)) : nil,
            databases: { [weak self] in self?.database($0) }, logins: logins, limits: ReplicationLimits(source.settings.limits, compression: settings.compression), memory: memory,
            environment: environment, logger: logs.logger(.listener))
    }

    /// Creates a replicator, without starting it.
    nonisolated func makeReplicator(
        _ settings: ReplicatorSettings, database: Database, _ source: PolicySource, logger: Logger
    ) throws -> (Replicator, ReplicatorSecurity?) {
        let security = try ReplicatorBuilding.security(
            settings, dataFolder: source.settings.data.value, environment: environment, logger: logger)
        let replicator = try ReplicatorBuilding.make(
            settings, database: database, policies: source, security: security,
            local: LocalDatabases(
                find: { [weak self] in self?.database($0) }, conflicts: { [weak self] in self?.conflictPolicy($0) ?? ConflictPolicy() },
                conflictObserver: conflictObserver),
            group: group, limits: ReplicationLimits(source.settings.limits, compression: settings.compression), memory: memory,
            environment: environment, logger: logger, conflictObserver: conflictObserver,
            purged: { [audit] in audit.notePurge(by: settings.name.value, database: settings.database.value, $0, count: $1) },
            wireLog: logs.wireLog)
        return (replicator, security)
    }

    // MARK: - Conflicts

    /// Starts the upkeep of pending conflicts, channels and expiry.
    func keep(_ settings: AgentSettings) async throws {
        keepers = await makeKeepers(settings)
        for keeper in keepers { await keeper.retry() }
        try await channels.start(settings, policies(), databases: { [weak self] in self?.database($0) }, logger: logs.logger(.listener))
        // Entries beyond the configured length are removed now, not only when the next conflict is recorded.
        for database in databases { _ = try? await database.write { try $0.trimConflictHistory() } }
    }

    func stopKeepers() async {
        for keeper in keepers { await keeper.stop() }
        keepers = []
        await channels.stop()
    }

    // MARK: - Finding things

    /// The time since the start.
    nonisolated var uptimeNanoseconds: UInt64 { environment.time.monotonicNanoseconds() - uptimeStart }

    package nonisolated func database(_ name: String) -> Database? { shared.withLock { $0.databases[name] } }
    package nonisolated var databases: [Database] {
        shared.withLock { state in state.settings.databases.compactMap { state.databases[$0.name.value] } }
    }
    package nonisolated var listeners: [PeerListener] { shared.withLock { $0.listeners } }
    package nonisolated var replicators: [Replicator] { shared.withLock { $0.replicators } }
    package nonisolated var plugins: PluginHost? { shared.withLock { $0.plugins } }
    nonisolated var fleet: FleetService? { shared.withLock { $0.fleet } }
    nonisolated var fleetStore: FleetStore? { shared.withLock { $0.fleetStore } }
    nonisolated var waitingForStart: [String] { shared.withLock { $0.waitingForStart } }
    package nonisolated var settings: AgentSettings { shared.withLock { $0.settings } }
    package nonisolated var isReady: Bool { shared.withLock { $0.isReady } }
}
