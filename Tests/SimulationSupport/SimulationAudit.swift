import Documents
import DocumentStore
import Environment
import Interfaces
import Replication

/// The state of a link when it was last audited: the same state need not be audited again.
struct AuditedState: Equatable {
    var link: Int
    var sequences: [SequenceNumber]
    var connections: Int
}

/// What has to be true during a run, apart from counts.
extension Simulation {
    /// Simulated time within which every policy has answered: questions to policies hold memory even after their connection has ended, and a slow resolver is
    /// asked about one conflict after the other.
    private static let longestPolicy: UInt64 = 60_000_000_000

    /// When nothing is under way, nobody who claims to be idle owes anything, and nobody holds memory for a connection that is gone.
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
                return violate("machine \(agent.number) has \(places) places in its memory budget taken, but only \(ends) connections")
            }
        }
        for (number, link) in plan.links.enumerated() { auditIdle(number, agents[link.from], agents[link.to]) }
    }

    /// If both ends of a link are connected and say that they are idle, each has everything of the other's that it may have.
    private func auditIdle(_ number: Int, _ active: SimulatedAgent, _ passive: SimulatedAgent) {
        guard record.damaged.isDisjoint(with: [active.number, passive.number]), let process = active.process, let peer = passive.process,
            let replicator = process.replicators.first(where: { $0.configuration.target == "machine-\(passive.number)" }),
            // A replicator whose pull waits for room says so.
            replicator.status.activity == .idle, replicator.status.refusals.space == nil, network.wholeConnections(active.number, passive.number) == 1
        else { return }
        let sessions = peer.sessions.values.filter { $0.peer == active.number }
        guard sessions.count == 1, sessions[0].activity == .idle else { return }
        let sequences = [active, passive].compactMap { agent in agent.look { try $0.lastSequence($1) } }
        let state = AuditedState(link: number, sequences: sequences, connections: network.connections)
        guard sequences.count == 2, !audited.contains(state) else { return }
        audited.removeAll { $0.link == number }
        audited.append(state)
        checkIdle(active, passive, replicator, peerStands: !sessions[0].counters.stalls.isEmpty)
    }

    /// What arrives at one moment is taken before the budget is checked: after a pause, all that was on its way to this end, which counts with a
    /// quarter more. In a budget as small as a tight plan's that is more than a tenth.
    private static let oneArrival = SimulatedNetwork.Conditions().highWatermark / 4 * 5

    /// The budget holds at any time. It may be exceeded by a tenth, which may arrive before the connections that hold too much are gone.
    func checkBudget(_ agent: SimulatedAgent) {
        guard let memory = agent.process?.memory else { return }
        let used = memory.takeHighest()
        if used > memory.limit + max(memory.limit / 10, Self.oneArrival) { violate("machine \(agent.number) held \(used) bytes for its peers, with a limit of \(memory.limit)") }
    }

    /// When everything has ended, nobody holds anything.
    func checkBudgetsAtEnd() {
        for agent in agents {
            for memory in agent.budgets where memory.used != 0 || memory.places != 0 || memory.reserved != 0 {
                violate(
                    "machine \(agent.number) has ended, but its memory budget still has \(memory.used) bytes and \(memory.places) places taken, and \(memory.reserved) bytes reserved")
            }
        }
    }
}
