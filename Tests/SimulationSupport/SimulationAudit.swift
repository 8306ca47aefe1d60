import Documents
import DocumentStore
import Environment
import Interfaces
import Replication

/// What was true of a link when it was looked at last: the same again need not be looked at.
struct AuditedState: Equatable {
    var link: Int
    var sequences: [SequenceNumber]
    var connections: Int
}

/// What has to be true while it runs, apart from counts.
extension Simulation {
    /// Simulated time within which a policy has answered, whose questions hold memory beyond their connection.
    private static let longestPolicy: UInt64 = 10_000_000_000

    /// Nothing is under way: whatever says that it is idle owes nothing, and whatever has no connection holds nothing for one.
    func audit() {
        for agent in agents {
            guard let process = agent.process else { continue }
            let (places, ends) = (process.memory.places, network.ends(of: agent.number))
            guard places > ends else {
                surplus[agent.number] = nil
                continue
            }
            let since = surplus[agent.number] ?? scheduler.now
            surplus[agent.number] = since
            if scheduler.now - since > Self.longestPolicy {
                return violate("machine \(agent.number) has \(places) places in its memory budget taken, for \(ends) connections")
            }
        }
        for (number, link) in plan.links.enumerated() { auditIdle(number, agents[link.from], agents[link.to]) }
    }

    /// Both ends of a link say that they are idle, and are connected: then each has what it may have of the other.
    private func auditIdle(_ number: Int, _ active: SimulatedAgent, _ passive: SimulatedAgent) {
        guard record.damaged.isDisjoint(with: [active.number, passive.number]), let process = active.process, let peer = passive.process,
            let replicator = process.replicators.first(where: { $0.configuration.target == "machine-\(passive.number)" }),
            // One whose pull waits for room says so.
            replicator.status.activity == .idle, replicator.status.refusals.room == nil, network.wholeConnections(active.number, passive.number) == 1
        else { return }
        let sessions = peer.sessions.values.filter { $0.peer == active.number }
        guard sessions.count == 1, sessions[0].activity == .idle else { return }
        let sequences = [active, passive].compactMap { agent in agent.look { try $0.lastSequence($1) } }
        let state = AuditedState(link: number, sequences: sequences, connections: network.connections)
        guard sequences.count == 2, !audited.contains(state) else { return }
        audited.removeAll { $0.link == number }
        audited.append(state)
        checkIdle(active, passive, replicator, peerStands: !sessions[0].counters.standstills.isEmpty)
    }

    /// What has arrived at one moment, a whole frame with what came beside it, is taken before anybody looks: in a budget as small as that of a
    /// tight plan it is more than a tenth.
    private static let oneArrival = 36 << 10

    /// The budget holds at any time. A tenth more is what may come before anybody who owes something has gone.
    func checkBudget(_ agent: SimulatedAgent) {
        guard let memory = agent.process?.memory else { return }
        let used = memory.takeHighest()
        if used > memory.limit + max(memory.limit / 10, Self.oneArrival) { violate("machine \(agent.number) held \(used) bytes for its peers, of \(memory.limit)") }
    }

    /// When all is over, nobody holds anything.
    func checkBudgetsAtEnd() {
        for agent in agents {
            for memory in agent.budgets where memory.used != 0 || memory.places != 0 || memory.reserved != 0 {
                violate(
                    "machine \(agent.number) has ended, and its memory budget has \(memory.used) bytes and \(memory.places) places taken, \(memory.reserved) bytes reserved")
            }
        }
    }
}
