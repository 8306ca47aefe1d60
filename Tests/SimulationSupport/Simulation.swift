import Documents
import DocumentStore
import Environment
import Replication

/// One run: round by round, a fleet is put under load and faults and then heals. After each round every promise is checked.
///
/// Unchecked: used only on the simulation's one thread.
package final class Simulation: @unchecked Sendable {
    package let plan: SimulationPlan
    package let scheduler: Scheduler
    package let network: SimulatedNetwork
    package private(set) var agents: [SimulatedAgent] = []
    package let record = SimulationRecord()
    let random: SeededRandom
    private(set) var policies: [SimulatedPolicy] = []
    private(set) var violation: String?
    /// What the last audit of a quiet fleet looked at.
    var audited: [AuditedState] = []
    /// By machine: the time since which its memory budget has had more places taken than the machine has connections.
    var surplus: [Int: UInt64] = [:]
    /// How many edits of a burst are left when connections break.
    var cutAt: Int?

    /// Simulated time, from the start of a round, during which edits and faults happen.
    static let window: UInt64 = 20_000_000_000
    /// Simulated time within which a healed fleet has to come to rest. A replicator waits up to five minutes between attempts.
    static let longestRest: UInt64 = 3_600_000_000_000
    /// Simulated time without a step after which all is quiet: several times what a message or the disk takes.
    static let quiet: UInt64 = 50_000_000

    package init(_ plan: SimulationPlan, log: ((String) -> Void)? = nil) {
        self.plan = plan
        scheduler = Scheduler(seed: plan.seed)
        scheduler.log = log
        random = scheduler.random
        network = SimulatedNetwork(scheduler)
        agents = (0..<plan.machines).map { SimulatedAgent($0, scheduler, network) }
        network.accept = { [unowned self] in agents[$0].accept($1) }
        network.speaksVersions = { plan.versions.contains($0) }
        for number in plan.versionsEdits { agents[number].versionsEdits = true }
        for number in plan.branchKeepers { agents[number].keepsBranches = true }
        for agent in agents {
            agent.planted = plan.planted
            agent.isTight = plan.isTight
            agent.neighbours = plan.links.count { $0.from == agent.number || $0.to == agent.number }
            agent.problemMet = { [unowned self, unowned agent] in damageWasNamed(agent, $0) }
            agent.conflictDecided = { [unowned self, number = agent.number] event in
                record.decided.insert(event.id)
                if case .decided = event.kind { record.decisions[number, default: 0] += 1 }
                scheduler.say("machine \(number): the conflict of \(event.id): \(event.kind)")
            }
        }
        for link in plan.links { addLink(link.from, link.to) }
    }

    private func addLink(_ from: Int, _ to: Int) {
        let agent = agents[from]
        var link = SimulatedLink(to: to, type: .pushAndPull)
        if plan.unites { link.resolver = add(SimulatedResolver("resolver", agent.time, timesOut: plan.resolversTimeOut)) }
        if plan.hasPolicies {
            if random.chance(0.6) { link.pushFilter = add(SimulatedFilter("push", agent.time)) }
            if random.chance(0.6) { link.pullFilter = add(SimulatedFilter("pull", agent.time)) }
            let listener = agents[to]
            if listener.listenerPushFilter == nil, random.chance(0.4) { listener.listenerPushFilter = add(SimulatedFilter("out", listener.time)) }
            if listener.listenerPullFilter == nil, random.chance(0.4) { listener.listenerPullFilter = add(SimulatedFilter("in", listener.time)) }
        }
        if plan.hasChannels, agents[to].syncFunction == nil { agents[to].syncFunction = add(SimulatedSyncFunction(agents[to].time)) }
        agent.links.append(link)
    }

    /// The kinds of failure that policies had, by the policies' names.
    package var failuresOfPolicies: [String: Set<String>] {
        Dictionary(policies.map { ($0.pluginName, $0.failures) }) { $0.union($1) }
    }

    private func add<Policy: SimulatedPolicy>(_ policy: Policy) -> Policy {
        policies.append(policy)
        return policy
    }

    /// Records a broken invariant. Only the first one counts, because others may follow from it.
    func violate(_ what: String) {
        guard violation == nil else { return }
        violation = what
        scheduler.say("VIOLATION: \(what)")
        if scheduler.log != nil { dump() }
    }

    // MARK: the run

    package func run() throws(SimulationFailure) {
        for agent in agents {
            do { try agent.start() } catch { violate("machine \(agent.number) cannot open a new database: \(error)") }
        }
        for round in 0..<plan.rounds where violation == nil {
            let start = scheduler.now
            schedule(round, from: start)
            go(until: start + Self.window)
            heal()
            go(until: scheduler.now + 2_000_000_000)
            heal()
            rest()
            attend()
            record.renewed = []
            if violation == nil { checkAtRest() }
        }
        finish()
        if violation == nil { checkBudgetsAtEnd() }
        if let violation { throw SimulationFailure(plan: plan, violation: violation) }
    }

    private func go(until end: UInt64) {
        while violation == nil, isGoingOn(until: end), scheduler.step(until: end) { look() }
        scheduler.advance(to: end)
    }

    /// Runs until nothing is left to happen, except that what is permanently refused is offered again.
    func rest() {
        let (start, steps) = (scheduler.now, scheduler.steps)
        let bound = 200_000 + 2_000 * record.commits * plan.links.count
        while violation == nil, isGoingOn(until: .max), !onlyOffersAgain(since: start), scheduler.step() {
            look()
            if scheduler.now - start > Self.longestRest {
                return violate("the fleet does not come to rest within an hour")
            }
            if scheduler.steps - steps > bound { return violate("the fleet does not come to rest within \(bound) steps: it keeps sending") }
        }
    }

    /// Whether there is another step. Audits the fleet first if the next step is so far off that nothing can be under way.
    private func isGoingOn(until end: UInt64) -> Bool {
        guard let next = scheduler.nextTime, next <= end else { return false }
        if next - scheduler.now >= Self.quiet { audit() }
        return violation == nil
    }

    /// Checks every so often what has to be true at any time.
    private func look() {
        guard scheduler.steps % 256 == 0 else { return }
        for agent in agents {
            checkBudget(agent)
            for replicator in agent.process?.replicators ?? [] {
                let name = "a replicator of machine \(agent.number)"
                checkCounts(replicator.rawCounts, name)
                checkCopying(replicator.counters, name)
            }
            for (_, session) in (agent.process?.sessions ?? [:]).sorted(by: { $0.key < $1.key }) {
                let name = "a session of the listener of machine \(agent.number)"
                checkCounts(session.counters.snapshot, name)
                checkCopying(session.counters, name)
            }
        }
        if scheduler.count > 20_000 { violate("\(scheduler.count) steps wait: a queue grows without bound") }
    }

    /// Takes the counts as they were counted, because a status raises its total to what was completed if that is more.
    private func checkCounts(_ counts: ReplicationCounts, _ whose: String) {
        if counts.completed > counts.total { violate("\(whose): \(counts.completed) documents completed of \(counts.total)") }
    }

    /// Messages are put together at a cost that does not grow with the number of frames: a buffer that doubles copies each byte once or twice.
    private func checkCopying(_ counters: ReplicationCounters, _ whose: String) {
        #if DEBUG
        let (taken, copied) = counters.copying
        if copied > 2 * taken + 64 << 10 { violate("\(whose) copied \(copied) bytes to put \(taken) bytes of messages together") }
        #endif
    }

    /// Ends all faults, and starts again whatever had given up.
    private func heal() {
        scheduler.say("the fleet heals")
        network.unreachable = []
        network.conditions = .init()
        for agent in agents {
            agent.disk.faultRates = [:]
            agent.disk.isWriteLocked = false
            if agent.disk.changesUntilPowerCut != nil { crashNow(agent) }
            start(agent)
            agent.configureAsPlanned()
            agent.restartStopped()
        }
        for policy in policies where policy.mood != .well { policy.change(.well) }
        // Otherwise peers would offer their own documents of these names again and again.
        if plan.hasChannels { giveUpHidden(agents[plan.links[0].to]) }
    }

    /// Starts a machine that is down, and checks whether it lost anything.
    func start(_ agent: SimulatedAgent) {
        guard agent.process == nil else { return }
        do {
            do { try agent.start() } catch {
                scheduler.say("machine \(agent.number) does not start: \(error)")
                throw error
            }
            checkAcknowledged(agent)
            for link in plan.links
            where (link.from == agent.number || link.to == agent.number) && record.renewed.isDisjoint(with: [link.from, link.to]) {
                checkCheckpoint(agents[link.from], agents[link.to])
            }
        } catch is FileError {
            // As with the errors of the store below.
        } catch StoreError.inputOutput, StoreError.diskFull {
            // The disk fails; the next attempt may do better.
        } catch where agent.disk.isWriteLocked {
            // The next attempt may do better, once the other process is done.
        } catch let error as StoreError where record.damaged.contains(agent.number) {
            // A damaged database has to say that it is damaged.
            damageWasNamed(agent, error)
        } catch {
            violate("machine \(agent.number) does not start again: \(error)")
        }
    }

    /// Ends everything, so that nothing from this run stays in memory.
    private func finish() {
        for agent in agents { agent.stop() }
        var left = 200_000
        while left > 0, scheduler.step() { left -= 1 }
        network.accept = { _, _ in false }
    }
}
