import Documents
import DocumentStore
import Environment

/// Failing media: pages of a database's file and bytes of blobs that are no longer what was written. An operator who is told of the damage
/// starts afresh with an empty database.
extension Simulation {
    func scheduleDamage(_ start: UInt64) {
        let agent = agents[random.below(agents.count)]
        at(start, .fault, agent) { $0.damage(agent) }
    }

    private func damage(_ agent: SimulatedAgent) {
        // The power is about to fail.
        guard agent.disk.changesUntilPowerCut == nil else { return }
        // Pages are read from the file, and not from the log, only after an orderly restart.
        if agent.process != nil, random.chance(0.7) {
            agent.stop()
            record.unanswered[agent.number] = 0
        }
        record.damaged.insert(agent.number)
        let blobs = agent.disk.paths.filter { $0.contains("/blobs/") }
        if !blobs.isEmpty, random.chance(0.3) {
            let path = blobs[random.below(blobs.count)]
            scheduler.say("machine \(agent.number): a byte of \(path) is altered")
            agent.disk.corrupt(path, offset: random.below(max(1, agent.disk.bytes(path)?.count ?? 0)), mask: UInt8(1 + random.below(255)))
        } else {
            for _ in 0...random.below(2) { damagePage(agent) }
        }
        if agent.process == nil { after(random.next() % 3_000_000_000, .fault, agent) { $0.start(agent) } }
    }

    /// Overwrites a page with zeros or noise.
    private func damagePage(_ agent: SimulatedAgent) {
        guard let bytes = agent.disk.bytes(SimulatedAgent.databasePath), bytes.count >= Self.pageBytes else { return }
        let page = random.below(bytes.count / Self.pageBytes)
        let isNoise = random.chance(0.5)
        scheduler.say("machine \(agent.number): page \(page + 1) becomes \(isNoise ? "noise" : "zeros")")
        for offset in page * Self.pageBytes..<(page + 1) * Self.pageBytes {
            agent.disk.corrupt(SimulatedAgent.databasePath, offset: offset, mask: isNoise ? UInt8(random.below(256)) : bytes[offset])
        }
    }

    private static let pageBytes = 4096

    /// The database has said that it is damaged, so that the operator comes after a while.
    func damageWasNamed(_ agent: SimulatedAgent, _ error: StoreError) {
        scheduler.say("machine \(agent.number) says: \(error)")
        guard record.damaged.contains(agent.number) else { return violate("machine \(agent.number) reports damage although its disk was not damaged: \(error)") }
        guard record.named.insert(agent.number).inserted else { return }
        after(1_000_000_000 + random.next() % 60_000_000_000, .fault, agent) { $0.replace(agent) }
    }

    /// Replaces a damaged database with an empty one, into which what others have comes back.
    private func replace(_ agent: SimulatedAgent) {
        guard record.named.remove(agent.number) != nil else { return }
        record.damaged.remove(agent.number)
        agent.stop()
        agent.disk.removeTree("/data")
        record.forget(agent.number)
        start(agent)
    }

    /// Reads everything on the damaged machines. Damage that is met has to be reported, and then the operator sees to it.
    func attend() {
        // Damage where nobody reads, or where memory still has the content, is not met yet: that may happen in a later round.
        var examined: Set<Int> = []
        while violation == nil, let number = record.damaged.subtracting(examined).min() {
            examined.insert(number)
            let agent = agents[number]
            let failure = everythingIsRead(agent)
            guard violation == nil else { return }
            if let failure, !record.named.contains(number) { return violate("machine \(number) is damaged and does not say so: \(failure)") }
            if record.named.contains(number) { rest() }
        }
    }

    private func everythingIsRead(_ agent: SimulatedAgent) -> (any Error)? {
        guard let process = agent.process else { return nil }
        let blobs = process.database.blobs
        do {
            try agent.read { transaction, collection in
                for row in try transaction.changes(collection, since: 0, limit: 10_000, includeBodies: true) {
                    _ = try row.revisionTree()
                    if try transaction.document(collection, row.id) == nil { throw StoreError.documentDamaged(id: row.id, detail: "it is in the list of changes only") }
                    guard !row.isDeleted, let text = Edits(row.body ?? []).blob, let digest = try? BlobDigest(text) else { continue }
                    _ = try blobs.read(digest)
                }
            }
            return nil
        } catch {
            return error
        }
    }
}
