import Logging
import Replication
import Transport

/// What has replicators try again before their time.
extension Agent {
    /// Replicators that wait for their next attempt make it when the machine gets a network, or another one.
    func watchNetwork() -> NetworkWatch? {
        let logger = logs.logger(.network)
        do {
            return try NetworkWatch.start(group: group, time: environment.time) { [weak self] in self?.retryAllNow("the network changed") }
        } catch {
            logger.notice("changes of the network are not noticed, replicators only try again at their times: \(error)")
            return nil
        }
    }

    nonisolated func retryAllNow(_ reason: String) {
        for replicator in replicators { replicator.retryNow(reason) }
    }

    /// The TLS files of one replicator changed.
    nonisolated func retryNow(_ security: ReplicatorSecurity) {
        let names = shared.withLock { state in state.replicatorSecurity.filter { $0.value === security }.map(\.key) }
        for replicator in replicators where names.contains(replicator.configuration.name) { replicator.retryNow("its TLS files changed") }
    }
}
