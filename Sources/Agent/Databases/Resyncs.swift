import Documents
import DocumentStore
import Environment
import Logging
import Replication

/// The resyncs of databases that are served with a sync function: one per database at a time, and the result of the last one since the start.
///
/// Each document records the version of the sync function that judged it. So nothing is lost if the agent stops in the middle: what is left to do
/// appears in the list of what needs attention, and another resync does it.
actor Resyncs {
    private let time: any TimeSource
    private let audit: AuditLog
    private let logger: Logger
    private var routers: [String: [ChannelRouter]] = [:]
    private var last: [String: Resync] = [:]
    private var tasks: [String: Task<Void, Never>] = [:]

    /// `resync_look`: seconds between two checks for documents whose channels come from another version.
    private static let lookSeconds: UInt64 = 60

    private struct Look {
        var version: String
        /// The first document that another version judged.
        var outdated: DocumentID?
        var at: UInt64
    }

    /// By database and collection.
    private var looks: [String: Look] = [:]
    /// Invalidates checks that began before a resync ended.
    private var rounds = 0

    init(time: any TimeSource, audit: AuditLog, logger: Logger) {
        self.time = time
        self.audit = audit
        self.logger = logger
    }

    /// Restarts resyncs that a reload interrupted.
    func serve(_ routers: [ChannelRouter]) {
        self.routers = Dictionary(grouping: routers, by: { $0.databaseName })
        forgetChecks()
        for (name, resync) in last where resync.state == .running {
            if self.routers[name] != nil {
                begin(resync.request, restarts: resync.restarts + 1)
            } else {
                end(name, .interrupted, "no listener serves the database with a sync function any more")
            }
        }
    }

    func stop() async {
        routers = [:]
        for task in tasks.values { task.cancel() }
        while let task = tasks.values.first { await task.value }
    }

    // MARK: - Running

    /// - Throws: ``AgentError`` if one is already running, or there is no sync function to ask.
    func start(_ request: ResyncRequest) throws(AgentError) -> Resync {
        guard let served = routers[request.database] else {
            throw AgentError(
                .invalid,
                "no listener serves the database \(request.database) with a sync function (sync: PLUGIN of the listener), so its documents are in no channels: there "
                    + "is nothing to resync")
        }
        if let running = last[request.database], running.state == .running {
            throw AgentError(
                .conflict,
                "a resync of the database \(request.database) has been under way since \(Timestamp.format(running.startedAt)): wait until it is done; nightjar "
                    + "status says how far it has come")
        }
        if let wanted = request.collection, !served.contains(where: { $0.collectionName == wanted }) {
            throw AgentError(.notFound, "database \(request.database) has no collection \(wanted)")
        }
        return begin(request, restarts: 0)
    }

    /// The last one since the start.
    func report(_ database: String) -> Resync? { last[database] }

    @discardableResult
    private func begin(_ request: ResyncRequest, restarts: Int) -> Resync {
        var resync = Resync(request, startedAt: time.wallSeconds())
        resync.restarts = restarts
        last[request.database] = resync
        logger.info("resync begins", metadata: ["database": "\(request.database)", "dry_run": "\(request.isTrial)"])
        let chosen = (routers[request.database] ?? []).filter { request.collection == nil || $0.collectionName == request.collection }
        tasks[request.database] = Task { await run(request, chosen) }
        return resync
    }

    private func run(_ request: ResyncRequest, _ routers: [ChannelRouter]) async {
        let name = request.database
        do {
            while try await !pass(request, routers) {
                last[name]?.figures = []
                last[name]?.restarts += 1
                logger.info("the resync starts over, because the sync function changed", metadata: ["database": "\(name)"])
            }
            end(name, .done)
        } catch is CancellationError {
            // A reload continues it, or the agent is stopping.
            tasks[name] = nil
        } catch {
            end(name, .failed, "\(error)")
        }
    }

    /// - Returns: false if the function changed, so that all documents have to be judged again.
    private func pass(_ request: ResyncRequest, _ routers: [ChannelRouter]) async throws -> Bool {
        let versions = routers.map { $0.plugin.version }
        for router in routers {
            let collection = router.collectionName
            let figures = try await router.resync(only: request.document, isTrial: request.isTrial) { await self.note($0, of: collection, in: request.database) }
            guard let figures, versions == routers.map({ $0.plugin.version }) else { return false }
            note(figures, of: collection, in: request.database)
        }
        return true
    }

    private func note(_ figures: ResyncFigures, of collection: CollectionName, in database: String) {
        last[database]?.note(figures, of: collection)
    }

    private func end(_ name: String, _ state: Resync.State, _ error: String? = nil) {
        tasks[name] = nil
        last[name]?.state = state
        last[name]?.endedAt = time.wallSeconds()
        last[name]?.error = error
        forgetChecks()
        guard let resync = last[name] else { return }
        let outcome = "\(state.rawValue): \(error.map { "\($0); " } ?? "")\(resync.summary)"
        let what = resync.request.isTrial ? "resync --dry-run" : "resync"
        if resync.isIncomplete {
            logger.warning("\(what) \(outcome)", metadata: ["database": "\(name)"])
        } else {
            logger.info("\(what) \(outcome)", metadata: ["database": "\(name)"])
        }
        if !resync.request.isTrial { audit.note(.init(who: "agent", from: "", action: "resync", target: "database \(name)", outcome: outcome)) }
    }

    // MARK: - What is left to do

    private func forgetChecks() {
        looks = [:]
        rounds += 1
    }

    /// Whether documents are in channels assigned by a different version of the sync function from the one in force.
    func isOutdated(_ database: String) async -> Bool {
        for router in routers[database] ?? [] {
            let (key, version, round) = ("\(database).\(router.collectionName)", router.plugin.version, rounds)
            // While no version loads, there is nothing to ask.
            if version.isEmpty { continue }
            let now = time.monotonicNanoseconds()
            let known = looks[key].flatMap { $0.version == version ? $0 : nil }
            if let known, known.outdated == nil || now - known.at < Self.lookSeconds * 1_000_000_000 {
                if known.outdated != nil { return true }
                continue
            }
            let look: Look
            do { look = Look(version: version, outdated: try await router.outdated(from: known?.outdated), at: now) } catch { continue }
            if round == rounds { looks[key] = look }
            if look.outdated != nil { return true }
        }
        return false
    }
}

extension Agent {
    nonisolated var resyncs: Resyncs { channels.resyncs }

    /// Even after a sync function is fixed, its earlier decisions stay in force for stored documents.
    nonisolated func channelAttention(of database: Database) async -> [Attention] {
        guard await resyncs.isOutdated(database.name) else { return [] }
        let running = await resyncs.report(database.name).map { $0.state == .running && !$0.request.isTrial } ?? false
        return [
            Attention(
                .channelsOutdated, "database \(database.name)",
                "documents stored before the sync function changed keep the channels and grants that another version gave them, until they change",
                remedy: running
                    ? "a resync is under way" : "nightjar resync \(database.name) runs the current version on each of them; with --dry-run it first says how many "
                        + "would change")
        ]
    }
}
