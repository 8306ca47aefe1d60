import Logging
import Replication
import Transport

/// Events that make replicators, and listeners that wait for their port, retry early.
extension Agent {
    /// When the machine gets a network connection, or a different one, replicators that are waiting try again. Listeners check whether their
    /// interface still has the addresses that they listen on.
    func watchNetwork() -> NetworkWatch? {
        let logger = logs.logger(.network)
        do {
            return try NetworkWatch.start(group: group, time: environment.time) { [weak self] change in
                switch change {
                case .gain: self?.retryAllNow("the network changed")
                case .loss: self?.checkInterfaces()
                }
            }
        } catch {
            logger.notice("network changes are not noticed, so replicators and listeners only retry at their scheduled times: \(error)")
            return nil
        }
    }

    nonisolated func retryAllNow(_ reason: String) {
        for replicator in replicators { replicator.retryNow(reason) }
        checkInterfaces()
    }

    /// Listeners compare their interface's addresses with those that they are bound to.
    private nonisolated func checkInterfaces() {
        for listener in listeners { listener.binding.retryNow() }
    }

    /// The files with a replicator's passwords and tokens have changed.
    nonisolated func retryNow(secretsOf name: String) {
        for replicator in replicators where replicator.configuration.name == name { replicator.retryNow("a file of its secrets changed") }
    }

    /// A replicator's TLS files have changed.
    nonisolated func retryNow(_ security: ReplicatorSecurity) {
        let names = shared.withLock { state in state.replicatorSecurity.filter { $0.value === security }.map(\.key) }
        for replicator in replicators where names.contains(replicator.configuration.name) { replicator.retryNow("its TLS files changed") }
    }

    /// Replicators reconnect after the machine was suspended.
    nonisolated func awoke(afterSeconds seconds: Int) {
        for replicator in replicators {
            environment.task { await replicator.reconnect("the machine was asleep for \(seconds) s") }
        }
    }
}
