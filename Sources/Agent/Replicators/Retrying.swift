import Logging
import Replication
import Transport

/// What has replicators, and listeners that wait for their port, try again before their time.
extension Agent {
    /// Replicators that wait for their next attempt make it when the machine gets a network, or another one. Listeners look whether the addresses of
    /// their interface are still those that they listen on.
    func watchNetwork() -> NetworkWatch? {
        let logger = logs.logger(.network)
        do {
            return try NetworkWatch.start(group: group, time: environment.time) { [weak self] change in
                switch change {
                case .gain: self?.retryAllNow("the network changed")
                case .loss: self?.lookAtInterfaces()
                }
            }
        } catch {
            logger.notice("changes of the network are not noticed, replicators and listeners only try again at their times: \(error)")
            return nil
        }
    }

    nonisolated func retryAllNow(_ reason: String) {
        for replicator in replicators { replicator.retryNow(reason) }
        lookAtInterfaces()
    }

    /// Listeners compare the addresses of their interface with those that they have.
    private nonisolated func lookAtInterfaces() {
        for listener in listeners { listener.binding.retryNow() }
    }

    /// The files of one replicator's passwords and tokens changed.
    nonisolated func retryNow(secretsOf name: String) {
        for replicator in replicators where replicator.configuration.name == name { replicator.retryNow("a file of its secrets changed") }
    }

    /// The TLS files of one replicator changed.
    nonisolated func retryNow(_ security: ReplicatorSecurity) {
        let names = shared.withLock { state in state.replicatorSecurity.filter { $0.value === security }.map(\.key) }
        for replicator in replicators where names.contains(replicator.configuration.name) { replicator.retryNow("its TLS files changed") }
    }

    /// Replicators connect anew: the machine was asleep.
    nonisolated func awoke(afterSeconds seconds: Int) {
        for replicator in replicators {
            environment.task { await replicator.reconnect("the machine was asleep for \(seconds) s") }
        }
    }
}
