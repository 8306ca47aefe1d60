import AgentConfiguration
import Logging
import Replication

/// What an operator did to a replicator without `--keep`: it survives a reload, but not a restart of the agent.
enum ReplicatorHalt: Sendable {
    case stopped, suspended
}

/// What survives a restart: an operator's stop, and counters.
extension Agent {
    /// - Returns: what happened, for the answer to a reload.
    @discardableResult
    func startReplicator(_ settings: ReplicatorSettings) async throws -> String {
        guard let database = database(settings.database.value) else {
            throw ConfigurationProblem(at: settings.database.position, "there is no database \"\(settings.database.value)\"")
        }
        guard !isStopping else { return "not started: the agent stops" }
        let (replicator, security) = try makeReplicator(settings, database: database, policies(), logger: logs.logger(.replicator))
        try observe(replicator, settings)
        shared.withLock {
            $0.replicators.append(replicator)
            $0.replicatorSecurity[settings.name.value] = security
            $0.replicatorSecrets[settings.name.value] = ReplicatorSecrets(settings)
        }
        roster.changed(replicators)
        return await startRemembered(replicator, settings)
    }

    /// Starts a replicator if its record, and what an operator did since the agent's start, allow it.
    private func startRemembered(_ replicator: Replicator, _ settings: ReplicatorSettings) async -> String {
        let name = replicator.configuration.name
        let record = records.read(name)
        replicator.restore(record.counts, lastSuccess: record.lastSuccess, wentBack: record.wentBack)
        if record.owesReset { replicator.oweReset() }
        warnAboutAutoPurge(replicator, before: record.autoPurge)
        guard !record.isStopped else {
            logs.logger(.replicator).notice(
                "stays stopped, as an operator requested (stop --keep); nightjar replicator \(name) start ends that", metadata: ["replicator": "\(name)"])
            return "stays stopped, as an operator requested (stop --keep)"
        }
        switch shared.withLock({ $0.replicatorHalts[name] }) {
        case .stopped: return "stays stopped, as an operator requested; nightjar replicator \(name) start ends that"
        case .suspended:
            await replicator.startSuspended()
            return "stays suspended, as an operator requested; nightjar replicator \(name) resume ends that"
        case nil:
            guard mayConnect(settings) else {
                await replicator.startSuspended()
                logs.logger(.replicator).info("suspended: its schedule lets it connect later", metadata: ["replicator": "\(name)"])
                return "started, and suspended by its schedule"
            }
            await replicator.start()
            return "started"
        }
    }

    /// - Parameter halt: nil if an operator wants it to run.
    nonisolated func note(_ halt: ReplicatorHalt?, of replicator: Replicator) {
        shared.withLock { $0.replicatorHalts[replicator.configuration.name] = halt }
    }

    /// Warns that documents purged, or not purged, under the previous setting stay that way.
    private func warnAboutAutoPurge(_ replicator: Replicator, before: Bool?) {
        let configuration = replicator.configuration
        let now = configuration.autoPurge
        guard now != before else { return }
        let logger = logs.logger(.replicator).with("replicator", configuration.name)
        do { try remember(replicator) } catch { logger.warning("its settings cannot be kept: \(error)") }
        guard before != nil, configuration.type.pulls else { return }
        if now {
            logger.warning(
                """
                enable_auto_purge is on from now on; documents that the remote took away before stay: nightjar replicator \(configuration.name) \
                orphaned lists them, and start --reset looks at all of them again
                """)
        } else {
            logger.warning(
                """
                enable_auto_purge is off from now on: documents that the remote takes away stay, and nightjar replicator \(configuration.name) \
                orphaned lists them; those that were purged before do not come back by themselves
                """)
        }
    }

    /// - Parameter isStopped: whether it stays stopped at the next start; nil leaves this unchanged.
    nonisolated func remember(_ replicator: Replicator, isStopped: Bool? = nil) throws {
        let name = replicator.configuration.name
        var record = records.read(name)
        if let isStopped {
            record.isStopped = isStopped
            record.stoppedAt = isStopped ? record.stoppedAt ?? environment.time.wallSeconds() : nil
        }
        (record.counts, record.owesReset) = (replicator.lifetime, replicator.owesReset)
        let status = replicator.status
        (record.lastSuccess, record.wentBack) = (status.lastSuccess, status.wentBack)
        record.autoPurge = replicator.configuration.autoPurge
        try records.write(name, record)
    }

    nonisolated func remember(_ replicators: [Replicator]) {
        for replicator in replicators {
            do { try remember(replicator) } catch {
                logs.logger(.replicator).warning(
                    "its counts cannot be kept: \(error)", metadata: ["replicator": "\(replicator.configuration.name)"])
            }
        }
    }

    /// Removes which hubs were reached by replicators that these settings do not have.
    nonisolated func forgetHubs(_ settings: AgentSettings) {
        GroupMemory.forget(
            except: Set(settings.replicators.map(\.name.value)), dataFolder: settings.data.value, files: environment.files, logger: logs.logger(.replicator))
    }

    /// Runs until the task is cancelled.
    nonisolated func rememberPeriodically() async {
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: ReplicatorRecords.seconds)
            if !Task.isCancelled { remember(replicators) }
        }
    }
}
