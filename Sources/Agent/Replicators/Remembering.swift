import Logging
import Replication

/// What outlives a restart: an operator's stop, and counts.
extension Agent {
    /// Starts a replicator where its record lets it.
    func startRemembered(_ replicator: Replicator) async {
        let name = replicator.configuration.name
        let record = records.read(name)
        replicator.restore(record.counts, lastSuccess: record.lastSuccess)
        tellOfAutoPurge(replicator, before: record.autoPurge)
        guard !record.isStopped else {
            logs.logger(.replicator).notice(
                "stays stopped, as an operator wanted (stop --keep); nightjar replicator \(name) start ends that", metadata: ["replicator": "\(name)"])
            return
        }
        await replicator.start()
    }

    /// What the other setting did, or did not do, stays so: that is to be known.
    private func tellOfAutoPurge(_ replicator: Replicator, before: Bool?) {
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

    /// - Parameter isStopped: whether it stays stopped at the next start; nil: as before.
    nonisolated func remember(_ replicator: Replicator, isStopped: Bool? = nil) throws {
        let name = replicator.configuration.name
        var record = records.read(name)
        if let isStopped { record.isStopped = isStopped }
        record.counts = replicator.lifetime
        record.lastSuccess = replicator.status.lastSuccess
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

    /// Runs until the task is cancelled.
    nonisolated func rememberNowAndThen() async {
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: ReplicatorRecords.seconds)
            if !Task.isCancelled { remember(replicators) }
        }
    }
}
