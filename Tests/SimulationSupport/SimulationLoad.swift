import Documents
import DocumentStore
import Environment
import Glibc

/// What users and chance do in a round.
extension Simulation {
    func schedule(_ round: Int, from start: UInt64) {
        for number in 0..<plan.edits {
            let agent = agents[random.below(agents.count)]
            let mark = "\(round)-\(number)"
            at(start, .load, agent) { $0.edit(agent, mark) }
        }
        if plan.hasChannels {
            let hub = agents[plan.links[0].to]
            for number in 0..<(4 + random.below(10)) {
                at(start, .load, hub) { $0.hideSoon(hub, "\(round)-\(number)") }
            }
            if plan.topology == .pair {
                let spoke = agents[plan.links[0].from]
                let id = DocumentID(stored: "h\(random.below(3))")
                at(start, .load, hub) { $0.write(hub, id, "hide-\(round)", creates: true) }
                at(start, .load, spoke) { $0.write(spoke, id, "\(round)-h") }
                if random.chance(0.5) { at(start, .load, hub) { $0.giveUpHidden(hub) } }
            }
        }
        if plan.hasBursts {
            let agent = agents[random.below(agents.count)]
            let count = 50 + random.below(250)
            at(start, .load, agent) { $0.burst(agent, "\(round)", left: count) }
            if plan.cutsBursts { cutAt = count / 2 }
        }
        if plan.hasPolicies {
            for policy in policies where random.chance(0.7) {
                let moods = allowedMoods(policy)
                for _ in 0..<(1 + random.below(2)) {
                    let mood = moods[random.below(moods.count)]
                    at(start, .fault, agents[0]) { _ in policy.change(mood) }
                }
            }
        }
        if plan.changesSyncFunctions { scheduleSyncFunctions(round, start) }
        if plan.reconfigures { scheduleConfigurations(start) }
        if plan.restarts { scheduleRestarts(start) }
        if plan.branches { scheduleBranches(start) }
        if plan.recreates { scheduleRecreations(round, start) }
        if plan.churns { scheduleChurn(round, start) }
        if plan.damages { scheduleDamage(start) }
        if !plan.isCalm { scheduleFaults(start) }
    }

    /// Operators start replicators with a reset, or have them run just once. When the fleet heals, they are continuous again.
    private func scheduleRestarts(_ start: UInt64) {
        for _ in 0..<(1 + random.below(3)) {
            let agent = agents[random.below(agents.count)]
            guard let index = agent.links.indices.randomElement(random) else { continue }
            let isReset = random.chance(0.6)
            var link = agent.links[index]
            link.isContinuous = false
            let once = link
            at(start, .load, agent) { _ in if isReset { agent.restart(index) } else { agent.reconfigure(index, as: once) } }
            // By then it has stopped, or it is in the middle of its work.
            at(start, .load, agent) { _ in agent.restartStopped() }
        }
    }

    /// Operators change configurations and reload.
    private func scheduleConfigurations(_ start: UInt64) {
        for _ in 0..<(1 + random.below(3)) {
            let agent = agents[random.below(agents.count)]
            guard let index = agent.links.indices.randomElement(random) else { continue }
            var link = agent.links[index]
            switch random.below(4) {
            case 0: link.type = .push
            case 1: link.type = .pull
            case 2: (link.pushFilter, link.pullFilter) = (nil, nil)
            default: link.pullFilter = nil
            }
            let changed = link
            at(start, .load, agent) { _ in agent.reconfigure(index, as: changed) }
            if random.chance(0.5) { at(start, .load, agent) { _ in agent.reconfigure(index, as: nil) } }
        }
        if random.chance(0.5) {
            let agent = agents[plan.links[0].to]
            at(start, .load, agent) { _ in agent.reconfigureListener(pushFilter: nil, pullFilter: nil) }
        }
    }

    /// Other versions of a sync function come into force. They take their chances from a source of their own, so that the rest of a seed's run stays as it is.
    private func scheduleSyncFunctions(_ round: Int, _ start: UInt64) {
        let random = SeededRandom(seed: plan.seed ^ 0x57C ^ UInt64(round) << 32)
        for case let function as SimulatedSyncFunction in policies {
            for _ in 0..<(1 + random.below(3)) {
                let mood = [SimulatedPolicy.Mood.failing, .slow, .well][random.below(3)]
                scheduler.at(start + random.next() % Self.window, plan.links[0].to, .fault) { function.change(mood) }
            }
        }
    }

    /// A listener's filter never sees again what it rejected, so that it must not reject for a while only.
    private func allowedMoods(_ policy: SimulatedPolicy) -> [SimulatedPolicy.Mood] {
        let isListed = policy.pluginName == "push" || policy.pluginName == "pull"
        return isListed ? [.failing, .slow, .rejecting, .well] : [.failing, .slow, .well]
    }

    private func scheduleFaults(_ start: UInt64) {
        for _ in 0..<random.below(4) { at(start, .fault, agents[0]) { $0.network.cutOne(isHalfOpen: $0.random.chance(0.4)) } }
        for agent in agents {
            if random.chance(0.3) {
                at(start, .fault, agent) { _ in agent.time.skew += Int64.random(in: -100_000...100_000, from: agent) }
            }
            if random.chance(0.2) {
                at(start, .fault, agent) { simulation in
                    simulation.network.unreachable.insert(agent.number)
                    simulation.network.cutAll(of: agent.number)
                }
            }
            if plan.hasCrashes, random.chance(agents.count > 5 ? 0.15 : 0.6) {
                let isTorn = random.chance(0.5)
                at(start, .fault, agent) { $0.crash(agent, isTorn: isTorn) }
            }
            if plan.hasDiskFaults, random.chance(0.5) {
                let rate = [0.01, 0.1, 0.5][random.below(3)]
                at(start, .fault, agent) { simulation in
                    agent.disk.faultRates = simulation.random.chance(0.5) ? [.write: rate] : [.sync: rate, .read: rate / 10]
                    simulation.after(2_000_000_000, .fault, agent) { _ in
                        agent.disk.faultRates = [:]
                        agent.restartStopped()
                    }
                }
            }
            if plan.hasDiskFaults, random.chance(0.3) {
                at(start, .fault, agent) { simulation in
                    agent.disk.isWriteLocked = true
                    simulation.after(1_000_000_000 + simulation.random.next() % 6_000_000_000, .fault, agent) { _ in
                        agent.disk.isWriteLocked = false
                        agent.restartStopped()
                    }
                }
            }
        }
        if random.chance(0.3) {
            at(start, .fault, agents[0]) { simulation in
                simulation.network.conditions.nanosecondsPerByte = 20_000
                simulation.network.conditions.highWatermark = 4 << 10
                simulation.network.conditions.lowWatermark = 1 << 10
            }
        }
    }

    /// Runs something at a random time in the round.
    func at(_ start: UInt64, _ kind: Scheduler.Kind, _ agent: SimulatedAgent, _ body: @escaping @Sendable (Simulation) -> Void) {
        scheduler.at(start + random.next() % Self.window, agent.number, kind) { [unowned self] in body(self) }
    }

    func after(_ delay: UInt64, _ kind: Scheduler.Kind, _ agent: SimulatedAgent, _ body: @escaping @Sendable (Simulation) -> Void) {
        scheduler.at(scheduler.now + delay, agent.number, kind) { [unowned self] in body(self) }
    }

    private func crash(_ agent: SimulatedAgent, isTorn: Bool) {
        guard agent.process != nil else { return }
        scheduler.say("machine \(agent.number) is about to crash\(isTorn ? " in the middle of a write" : "")")
        if isTorn {
            // The power fails in the middle of what the disk is doing.
            agent.disk.changesUntilPowerCut = random.below(40)
            return after(100_000_000 + random.next() % 1_000_000_000, .fault, agent) { $0.fall(agent) }
        }
        fall(agent)
    }

    private func fall(_ agent: SimulatedAgent) {
        crashNow(agent)
        after(random.next() % 3_000_000_000, .fault, agent) { $0.start(agent) }
    }

    func crashNow(_ agent: SimulatedAgent) {
        record.crashes += 1
        agent.crash()
        record.unanswered[agent.number] = 0
    }

    // MARK: edits

    private func edit(_ agent: SimulatedAgent, _ mark: String) {
        let kinds = plan.hasPolicies ? "ddddttbpxx" : "dddddttbbp"
        let kind = Array(kinds)[random.below(kinds.count)]
        var name = "\(kind)\(random.below(kind == "d" ? 6 : 4))"
        // A document that filters reject would stay in conflict for ever if two machines wrote it.
        if kind == "x" || kind == "t" && !plan.deletesInConflict { name += "-\(agent.number)" }
        let id = DocumentID(stored: name)
        switch kind {
        case "t": write(agent, id, mark, deletes: random.chance(0.4))
        case "b": writeBlob(agent, id, mark)
        case "p": if random.chance(0.5) { purge(agent, id) } else { write(agent, id, mark) }
        default: write(agent, id, mark)
        }
    }

    /// Shows a document to the peers, and often hides it again, perhaps before they have it.
    private func hideSoon(_ hub: SimulatedAgent, _ mark: String) {
        let id = DocumentID(stored: "c\(random.below(3))")
        write(hub, id, "show-\(mark)", replaces: true)
        guard random.chance(0.7) else { return }
        after(1_000_000 + random.next() % 40_000_000, .load, hub) { $0.write(hub, id, "hide-\(mark)", replaces: true) }
    }

    /// The hub deletes the documents that it hides. Peers hear nothing of it, but from then on the hub can take theirs.
    func giveUpHidden(_ hub: SimulatedAgent) {
        guard let process = hub.process else { return }
        let collection = process.collection
        process.database.write { transaction in
            for row in try transaction.changes(collection, since: 0, limit: 10_000, includeBodies: true)
            where row.id.text.hasPrefix("h") && !row.isDeleted && Edits(row.body ?? []).isHidden {
                try transaction.save(collection, id: row.id, body: [], deleted: true, parent: row.revision)
            }
        } completion: { _ in }
    }

    /// Saves one document again and again, faster than it can be replicated.
    private func burst(_ agent: SimulatedAgent, _ mark: String, left: Int) {
        guard left > 0, agent.process != nil else { return }
        write(agent, DocumentID(stored: "t9-\(agent.number)"), "\(mark)-\(left)", replaces: true)
        if left == cutAt { network.cutAll(of: agent.number) }
        after(500_000 + random.next() % 5_000_000, .load, agent) { $0.burst(agent, mark, left: left - 1) }
    }

    private func writeBlob(_ agent: SimulatedAgent, _ id: DocumentID, _ mark: String) {
        guard let process = agent.process else { return }
        let size = random.chance(0.2) ? 200_000 : 100 + random.below(5_000)
        let bytes = Array("\(mark) ".utf8) + [UInt8](repeating: UInt8(random.below(256)), count: size)
        process.database.blobs.perform { try $0.install(bytes) } completion: { [unowned self] result in
            guard process.isAlive, let digest = try? result.get() else { return }
            write(agent, id, mark, blob: digest.text)
        }
    }

    func write(
        _ agent: SimulatedAgent, _ id: DocumentID, _ mark: String, deletes: Bool = false, replaces: Bool = false,
        creates: Bool = false, blob: String? = nil
    ) {
        // A machine that purges a document and writes it again has a permanent conflict with those that kept it.
        guard let process = agent.process, !record.purged.contains(id) else { return }
        // So does a machine that lost a document that its peers keep from everybody.
        if id.text.hasPrefix("x"), record.everRenewed.contains(agent.number) { return }
        let collection = process.collection
        record.unanswered[agent.number, default: 0] += 1
        process.database.write { transaction -> SavedRevision in
            let found = try transaction.document(collection, id)
            // Refused in the same way as an edit of an older revision.
            if creates, let found { throw StoreError.conflict(id: id, current: found.revision) }
            var edits = found.map { $0.isDeleted || replaces ? Edits() : Edits($0.body) } ?? Edits()
            edits.all.insert(mark)
            if let blob { edits.blob = blob }
            let isDeletion = deletes && found.map { !$0.isDeleted } ?? false
            return try transaction.save(
                collection, id: id, body: isDeletion ? [] : edits.body, deleted: isDeletion,
                parent: found.flatMap { $0.isDeleted ? nil : $0.revision })
        } completion: { [unowned self] in
            guard process.isAlive else { return }
            answered(agent, id, mark, $0)
        }
    }

    private func answered(_ agent: SimulatedAgent, _ id: DocumentID, _ mark: String, _ result: Result<SavedRevision, any Error>) {
        record.unanswered[agent.number, default: 0] -= 1
        guard case .success(let saved) = result else {
            record.failures += 1
            return
        }
        record.commits += 1
        record.commitsByMachine[agent.number, default: 0] += 1
        record.acknowledged[agent.number, default: [:]][id] = .init(sequence: saved.sequence, revision: saved.revision)
        if id.text.hasPrefix("d") { record.edited(id, mark, by: agent.number) }
        scheduler.note(saved.sequence, "machine \(agent.number): \(id) saved as \(saved.revision), sequence \(saved.sequence)")
    }

    private func purge(_ agent: SimulatedAgent, _ id: DocumentID) {
        guard let process = agent.process else { return }
        let collection = process.collection
        record.purged.insert(id)
        process.database.write { try $0.purge(collection, id) } completion: { _ in }
    }
}

extension Range<Int> {
    /// One of its elements, chosen at random; nil if it is empty.
    fileprivate func randomElement(_ random: SeededRandom) -> Int? { isEmpty ? nil : lowerBound + random.below(count) }
}

extension Int64 {
    /// A random number that the machine draws.
    fileprivate static func random(in range: ClosedRange<Int64>, from agent: SimulatedAgent) -> Int64 {
        range.lowerBound + Int64(agent.chance(UInt64(range.upperBound - range.lowerBound)))
    }
}
