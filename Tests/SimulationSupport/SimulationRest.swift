import Documents
import DocumentStore
import Replication

/// Recognises a fleet that is at rest although something is left to happen.
extension Simulation {
    /// Simulated time within which whatever a peer refuses is offered again at least once, however often it was refused before.
    private static let offersAgain = UInt64(2 * ReplicationLimits().maximumDeferralSeconds) * 1_000_000_000
    /// The longest simulated time that the checks at rest take.
    private static let longestChecks: UInt64 = 10_000_000_000

    /// Whether nothing is left but replicators that offer again what stays refused for as long as the filters stay as they are. They have done so
    /// in vain since the fleet healed, and their timers are all that is scheduled.
    func onlyOffersAgain(since start: UInt64) -> Bool {
        guard scheduler.now - start >= Self.offersAgain, scheduler.count <= plan.links.count, let next = scheduler.nextTime,
            next - scheduler.now > Self.longestChecks, let timers = scheduler.machinesOfTimers
        else { return false }
        let offering = plan.links.filter { link in
            agents[link.from].links.first { $0.to == link.to }.map { offersAgain(agents[link.from], $0, agents[link.to]) } ?? false
        }
        return timers == offering.map(\.from).sorted()
    }

    /// Whether a replicator waits only because of documents that its peer refuses: the peer has another revision of each, which cannot come here
    /// because every filter rejects these documents, and there is a filter on the way.
    private func offersAgain(_ active: SimulatedAgent, _ link: SimulatedLink, _ passive: SimulatedAgent) -> Bool {
        guard link.pullFilter != nil || passive.listenerPushFilter != nil, network.wholeConnections(active.number, passive.number) == 1,
            let replicator = active.process?.replicators.first(where: { $0.configuration.target == "machine-\(passive.number)" }),
            replicator.status.activity == .idle, replicator.waiting.isEmpty
        else { return false }
        let refused = active.look { transaction, collection -> [DocumentID: RevisionID] in
            guard let remote = try transaction.existingRemote(for: replicator.configuration.target) else { return [:] }
            let list = try transaction.exclusions(collection, remote: remote, direction: .push, limit: 10_000)
            // Only conflicts count: what a filter there refuses is not offered again (see the limits of simulated agents).
            return Dictionary(
                try list.filter { $0.kind == .refused && $0.version == "409" }.compactMap { each in
                    try transaction.document(collection, each.id).map { (each.id, $0.revision) }
                }) { first, _ in first }
        }
        guard let refused, !refused.isEmpty else { return false }
        let others = passive.look { transaction, collection in
            try refused.allSatisfy { id, revision in
                guard id.text.hasPrefix("x"), let row = try transaction.document(collection, id) else { return false }
                return row.revision != revision
            }
        }
        return others == true
    }
}
