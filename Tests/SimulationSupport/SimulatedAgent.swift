import Documents
import DocumentStore
import Environment
import Glibc
import Interfaces
import Logging
import Replication

/// A replicator of a simulated machine, as it is configured.
package struct SimulatedLink: Sendable {
    package var to: Int
    package var type: ReplicatorType
    package var pushFilter: SimulatedFilter?
    package var pullFilter: SimulatedFilter?
    package var resolver: SimulatedResolver?
    package var isContinuous = true
}

/// A machine: a disk, clocks and, while it runs, a process with a database, a listener and replicators.
///
/// Unchecked: used only on the simulation's one thread.
package final class SimulatedAgent: @unchecked Sendable {
    package let number: Int
    package let disk: SimulatedDisk
    package let time: SimulatedTime
    package var links: [SimulatedLink] = []
    /// Links that are configured differently for the time being, by index.
    private var changedLinks: [Int: SimulatedLink] = [:]
    /// The filters that the listener is meant to have, while it has others.
    private var plannedFilters: (push: SimulatedFilter?, pull: SimulatedFilter?)?
    package var listenerPushFilter: SimulatedFilter?
    package var listenerPullFilter: SimulatedFilter?
    /// Binds peers to a channel.
    package var syncFunction: SimulatedSyncFunction?
    package private(set) var process: Process?
    /// The memory budgets of processes that have ended.
    private(set) var budgets: [MemoryBudget] = []
    /// How many processes have been started so far.
    package private(set) var starts = 0
    package var planted: PlantedFault?
    /// How many links it has with other machines, in either direction.
    var neighbours = 0
    /// Its limits are so small that they are reached all the time.
    package var isTight = false
    /// Every edit gets a version.
    package var versionsEdits = false
    /// A client of CouchDB's API turns up after each start.
    package var keepsBranches = false
    /// Called with whatever is found wrong with the database's files.
    package var problemMet: (StoreError) -> Void = { _ in }
    /// Called for each conflict that is decided.
    package var conflictDecided: @Sendable (ConflictEvent) -> Void = { _ in }

    private let scheduler: Scheduler
    private let network: SimulatedNetwork
    private let logger: Logger

    /// Everything that a crash ends.
    ///
    /// Unchecked: used only on the simulation's one thread.
    package final class Process: @unchecked Sendable {
        package let environment: Environment
        package let database: Database
        package let collection: Collection
        let workers: ScheduledWorkers
        /// What may be held for its peers.
        let memory: MemoryBudget
        /// Reads without influencing the run; made when it is first needed.
        fileprivate var sideReader: SideReader?
        package fileprivate(set) var replicators: [Replicator] = []
        fileprivate var router: ChannelRouter?
        /// What the listener's push filter kept from peers, and the review that offers it again when the filter changes.
        fileprivate let kept = KeptFromPeers(listener: "main")
        fileprivate var review: PushFilterReview?
        /// Indices of replicators that are stopping because their configuration changed.
        fileprivate var reloading: Set<Int> = []
        /// The listener's sessions that are not over.
        package fileprivate(set) var sessions: [Int: (activity: ActivityLevel, counters: ReplicationCounters, peer: Int)] = [:]
        package fileprivate(set) var isAlive = true
        fileprivate var nextSession = 0

        init(memory: Int, _ environment: Environment, _ workers: ScheduledWorkers, _ database: Database, _ collection: Collection) {
            self.environment = environment
            self.workers = workers
            self.memory = MemoryBudget(limit: memory, time: environment.time)
            self.database = database
            self.collection = collection
        }
    }

    package init(_ number: Int, _ scheduler: Scheduler, _ network: SimulatedNetwork) {
        self.number = number
        self.scheduler = scheduler
        self.network = network
        time = SimulatedTime(scheduler, machine: number)
        logger = Logger(label: "simulation") { _ -> any LogHandler in
            if scheduler.log == nil { return SwiftLogNoOpLogHandler() }
            return TraceLog(machine: number, scheduler: scheduler)
        }
        disk = SimulatedDisk(time: time, random: SeededRandom(seed: scheduler.random.next()))
    }

    static let databaseFolder = "/data/a.nightjar"
    static let databasePath = databaseFolder + "/db.sqlite3"

    // MARK: life

    /// Opens the database and starts listening and replicating.
    package func start() throws {
        guard process == nil else { return }
        // The power failed while an earlier start was under way.
        if disk.isDead { disk.crash(scheduler.random) }
        if (try? disk.facts("/data")) == nil {
            try disk.makeFolder("/data")
            try disk.syncFolder("/")
        }
        let (scheduler, number) = (scheduler, number)
        let workers = ScheduledWorkers { _, step in
            scheduler.at(scheduler.soon(within: 1_000_000) + 10_000, number, .worker, step)
        }
        var environment = Environment(
            time: time, random: SeededRandom(seed: scheduler.random.next()), taskExecutor: SimulatedTasks(scheduler, machine: number),
            workers: workers, files: disk, sqliteVFS: disk.vfsName)
        environment.plant(planted)
        var options = DatabaseOptions()
        options.writerCacheBytes = 1 << 20
        options.readerCacheBytes = 1 << 20
        options.deltaBases?.minBodyBytes = 0
        options.versionsEdits = versionsEdits
        options.onProblem = { [unowned self] in problemMet($0) }
        let database = try Database.open(folder: Self.databaseFolder, name: "a", options: options, environment: environment)
        guard let collection = database.collection(.default) else { return }
        // Tight means, for each neighbour, half of what a connection takes for compression.
        let process = Process(memory: isTight ? max(1, neighbours) << 17 : 64 << 20, environment, workers, database, collection)
        self.process = process
        starts += 1
        if keepsBranches { environment.task { await database.noteBranchKeeper() } }
        for index in links.indices { process.replicators.append(replicator(index, process)) }
        if let syncFunction {
            let router = ChannelRouter(
                database: database, collection: collection, function: syncFunction, listener: "main", logger: logger)
            process.router = router
            environment.task { if process.isAlive { await router.start() } }
        }
        review(process)
        for replicator in process.replicators { run(replicator, process) }
    }

    private var limits: ReplicationLimits {
        var limits = ReplicationLimits()
        limits.minimumDeltaBytes = 0
        // These filters reject permanently: a fleet that kept offering what they reject would never come to rest.
        limits.refusedRetrySeconds = 0
        if isTight { limits.tighten() }
        limits.plant(planted)
        return limits
    }

    /// Every message, if the trace of one seed is to have them (NIGHTJAR_SIMULATION_WIRE).
    private var wireLog: WireLog? {
        guard scheduler.log != nil, getenv("NIGHTJAR_SIMULATION_WIRE") != nil else { return nil }
        var logger = logger
        logger.logLevel = .trace
        return WireLog(network: logger, sync: logger) { false }
    }

    private func replicator(_ index: Int, _ process: Process) -> Replicator {
        let link = changedLinks[index] ?? links[index]
        var configuration = ReplicatorConfiguration(
            name: "to-\(link.to)", database: process.database, target: "machine-\(link.to)", type: link.type, isContinuous: link.isContinuous,
            collections: [
                CollectionReplication(
                    collection: .default, pushFilter: link.pushFilter, pullFilter: link.pullFilter, resolver: link.resolver)
            ],
            limits: limits)
        configuration.wireLog = wireLog
        let decided = conflictDecided
        configuration.conflictObserver = { decided($0) }
        let connector = SimulatedConnector(network: network, time: time, from: number, to: link.to, isAlive: { process.isAlive })
        return Replicator(configuration: configuration, connector: connector, environment: process.environment, memory: process.memory, logger: logger)
    }

    /// A peer has connected. False if nobody listens.
    package func accept(_ transport: SimulatedTransport) -> Bool {
        guard let process else { return false }
        let principal = syncFunction == nil ? Principal.anonymous : Principal(name: "peer", channels: [SimulatedSyncFunction.channel])
        var configuration = PassiveConfiguration(
            listener: "main", database: process.database, principal: principal, pushFilter: listenerPushFilter, pullFilter: listenerPullFilter, syncFunction: syncFunction,
            subprotocol: transport.subprotocol ?? .generation3, limits: limits)
        configuration.kept = process.kept
        configuration.wireLog = wireLog
        process.nextSession += 1
        let key = process.nextSession
        let counters = ReplicationCounters()
        process.sessions[key] = (.busy, counters, transport.peerMachine)
        let observer = SessionObserver(
            activityChanged: { level in process.sessions[key]?.activity = level },
            ended: { _ in process.sessions[key] = nil })
        let session = ReplicationSession(
            transport: transport, role: .passive(configuration), observer: observer, counters: counters,
            environment: process.environment, memory: process.memory, logger: logger)
        transport.context.execute { session.assumeIsolated { $0.start() } }
        return true
    }

    /// After a change of the push filter, has peers told again of what the old one kept from them.
    private func review(_ process: Process) {
        let old = process.review
        // Where there was never a filter, nothing was kept.
        guard old != nil || listenerPushFilter != nil || plannedFilters?.push != nil else { return }
        let filter = listenerPushFilter
        let review = PushFilterReview(
            process.kept, database: process.database, filterOf: { _ in filter }, servedBy: { ["main"] }, environment: process.environment,
            logger: logger)
        process.review = review
        process.environment.task {
            await old?.stop()
            if process.isAlive { await review.start() }
        }
    }

    /// Starts replicators that gave up, for instance because the disk failed, as an operator would.
    package func restartStopped() {
        guard let process else { return }
        for (index, replicator) in process.replicators.enumerated()
        where replicator.status.activity == .stopped && !process.reloading.contains(index) {
            run(replicator, process)
        }
    }

    // MARK: configuration

    /// Gives a replicator another configuration, as a reload does. Nil stands for the planned one.
    package func reconfigure(_ index: Int, as link: SimulatedLink?) {
        changedLinks[index] = link
        guard let process, process.reloading.insert(index).inserted else { return }
        let old = process.replicators[index]
        process.environment.task { [self] in
            await old.stop()
            guard process.isAlive else { return }
            process.reloading.remove(index)
            process.replicators[index] = replicator(index, process)
            // A start that was under way may have slipped in since the stop, while the old replicator was still in the list.
            await old.stop()
            guard process.isAlive else { return }
            run(process.replicators[index], process)
        }
    }

    /// Makes a replicator start over, ignoring its checkpoint.
    package func restart(_ index: Int) {
        guard let process, !process.reloading.contains(index) else { return }
        let replicator = process.replicators[index]
        process.environment.task { [self] in
            await replicator.stop()
            guard process.isAlive else { return }
            run(replicator, process, reset: true)
        }
    }

    /// Starts a replicator, and stops it if the process has died or another replicator has taken its place meanwhile.
    private func run(_ replicator: Replicator, _ process: Process, reset: Bool = false) {
        process.environment.task {
            guard process.isAlive else { return }
            await replicator.start(reset: reset)
            if !process.isAlive || !process.replicators.contains(where: { $0 === replicator }) { await replicator.stop() }
        }
    }

    /// Gives the listener other filters: connected peers have to reconnect.
    package func reconfigureListener(pushFilter: SimulatedFilter?, pullFilter: SimulatedFilter?) {
        if plannedFilters == nil { plannedFilters = (listenerPushFilter, listenerPullFilter) }
        (listenerPushFilter, listenerPullFilter) = (pushFilter, pullFilter)
        if let process { review(process) }
        network.cutAll(of: number)
    }

    /// Puts every changed configuration back to what was planned.
    package func configureAsPlanned() {
        for index in changedLinks.keys.sorted() { reconfigure(index, as: nil) }
        if let (pushFilter, pullFilter) = plannedFilters {
            reconfigureListener(pushFilter: pushFilter, pullFilter: pullFilter)
            plannedFilters = nil
        }
    }

    /// The power fails: the disk keeps what was synced, and nothing the process does after this has any effect.
    package func crash() {
        guard let process else { return }
        process.isAlive = false
        process.workers.abandon()
        disk.crash(scheduler.random)
        end(process)
    }

    /// Ends the process in an orderly way.
    package func stop() {
        if let process { end(process) }
    }

    private func end(_ process: Process) {
        self.process = nil
        process.isAlive = false
        process.sideReader = nil
        budgets.append(process.memory)
        network.cutAll(of: number)
        process.sessions = [:]
        let replicators = process.replicators
        process.replicators = []
        for replicator in replicators { process.environment.task { await replicator.stop() } }
        if let router = process.router { process.environment.task { await router.stop() } }
        process.router = nil
        if let review = process.review { process.environment.task { await review.stop() } }
        process.review = nil
        process.database.abandon()
    }

    // MARK: looking at it

    /// Reads at once without influencing the run, which continues as if nobody had looked. Nil while the machine is down or about to be.
    func look<T>(_ body: (ReadTransaction, Collection) throws -> T) -> T? {
        guard let process, !disk.isDead else { return nil }
        let rates = disk.faultRates
        disk.faultRates = [:]
        defer { disk.faultRates = rates }
        do {
            let reader = try process.sideReader ?? process.database.sideReader()
            process.sideReader = reader
            return try reader.read { try body($0, process.collection) }
        } catch {
            return nil
        }
    }

    /// A random number below the limit.
    func chance(_ limit: UInt64) -> UInt64 { scheduler.random.next() % limit }

    /// Reads at once, without the disk's faults; nil while the machine is down.
    package func read<T: Sendable>(_ body: @escaping @Sendable (ReadTransaction, Collection) throws -> T) throws -> T? {
        guard let process else { return nil }
        let rates = disk.faultRates
        disk.faultRates = [:]
        defer { disk.faultRates = rates }
        let collection = process.collection
        return try process.database.readNow { try body($0, collection) }
    }
}

extension ReplicationLimits {
    /// Makes the limits as small as they can be and still work.
    fileprivate mutating func tighten() {
        self.rowsPerChangeList = 3
        self.changeListsInFlight = 2
        self.revisionsInFlight = 4
        self.revisionBytesInFlight = 2 << 10
        self.requestedRevisions = 4
        self.rowsReadAgain = 1
        self.unsavedMarks = 2
        self.conflictsAtOnce = 1
        self.insertionBatchRows = 2
        self.insertionBatch = 3
        self.insertionBatchBytes = 2 << 10
        self.insertionBatchesInFlight = 1
        self.bufferedRevisionBytes = 4 << 10
        self.owedReplyBytes = 4 << 10
        self.waitingRequests = 1
        self.turnBytes = 2 << 10
        self.blobPieceBytes = 4 << 10
        self.blobLookUps = 1
        self.awaitedBlobs = 2
        self.blobFetches = 1
        self.blobReads = 1
        self.knownProofs = 2
        self.shownBlobs = 2
        self.deltaBatchBytes = 1 << 10
        self.exchangedRevisions = 2
        self.echoMemory = 4
        self.inlineListBytes = 256
    }
}
