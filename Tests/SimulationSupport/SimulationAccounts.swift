import Documents
import DocumentStore
import Replication

/// What filters stopped is on a list and nowhere else, and the counts say what happened.
extension Simulation {
    func checkAccounts() {
        // The lists of a machine that started over know nothing of its earlier state.
        guard record.everRenewed.isEmpty else { return }
        for link in plan.links {
            guard let index = agents[link.from].links.firstIndex(where: { $0.to == link.to }) else { continue }
            checkRejected(agents[link.from], agents[link.from].links[index], agents[link.to])
        }
        if !plan.reconfigures { for agent in agents { checkLeaks(agent) } }
        checkCalmCounts()
    }

    /// Nil if they cannot be read: the machine's disk may be damaged.
    private func rejectedIDs(_ agent: SimulatedAgent) -> Set<DocumentID>? {
        let ids = agent.look { transaction, collection in
            try Set(transaction.changes(collection, since: 0, limit: 10_000, includeBodies: false).filter { !$0.isDeleted }.map(\.id))
        }
        return ids?.filter { $0.text.hasPrefix("x") && !record.purged.contains($0) }
    }

    /// A document that filters reject is on the list of the side with the replicator, whichever way it would have gone.
    private func checkRejected(_ active: SimulatedAgent, _ link: SimulatedLink, _ passive: SimulatedAgent) {
        guard let mine = rejectedIDs(active), let theirs = rejectedIDs(passive) else { return }
        let name = "between machine \(active.number) and machine \(passive.number)"
        func listed(_ direction: Exclusion.Direction) -> Set<DocumentID> {
            let ids = active.look { transaction, collection -> Set<DocumentID> in
                guard let remote = try transaction.existingRemote(for: "machine-\(passive.number)") else { return [] }
                return try Set(transaction.exclusions(collection, remote: remote, direction: direction, limit: 10_000).map(\.id))
            }
            return ids ?? []
        }
        let (kept, held) = (listed(.push), listed(.pull))
        for id in mine.subtracting(theirs).sorted() where !kept.contains(id) {
            return violate("\(name), \(id) was not pushed, but no list says so")
        }
        // A peer does not hear of what a listener keeps from it.
        guard passive.listenerPushFilter == nil else { return }
        for id in theirs.subtracting(mine).sorted() where !held.contains(id) {
            return violate("\(name), \(id) was not pulled, but no list says so")
        }
    }

    /// A document that every filter rejects can only have come by a way without filters.
    private func checkLeaks(_ agent: SimulatedAgent) {
        let foreign = rejectedIDs(agent)?.filter { !$0.text.hasSuffix("-\(agent.number)") }
        guard let id = foreign?.min() else { return }
        let isOpen = agents.contains { other in
            other.links.contains { $0.to == agent.number && $0.pushFilter == nil && agent.listenerPullFilter == nil }
                || agent.links.contains { $0.to == other.number && $0.pullFilter == nil && other.listenerPushFilter == nil }
        }
        if !isOpen { violate("machine \(agent.number) has \(id), although there is a filter on every way to it, and filters reject this document") }
    }

    /// If nothing fails, the counts of both ends agree.
    private func checkCalmCounts() {
        guard plan.isCalm, plan.topology == .pair, network.connections == 1, let process = agents[0].process, let peer = agents[1].process,
            let session = peer.sessions.values.first, peer.sessions.count == 1
        else { return }
        let (mine, theirs) = (process.replicators[0].rawCounts, session.counters.snapshot)
        if mine.pushed != theirs.pulled { violate("\(mine.pushed) documents were counted as pushed, but \(theirs.pulled) as received by the listener") }
        // Fewer may be pulled than were sent: what arrived by another push while it was on its way is here already.
        if mine.pulled > theirs.pushed { violate("\(mine.pulled) documents were counted as pulled, but only \(theirs.pushed) as sent by the listener") }
        let decisions = UInt64(record.decisions[0] ?? 0)
        if mine.resolved != decisions { violate("\(mine.resolved) conflicts were counted as resolved, but \(decisions) were") }
    }
}
