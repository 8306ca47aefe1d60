import Documents
import DocumentStore

/// Documents that only one machine writes, and whose branches end there: the current revision is deleted, and a peer that never had the
/// document brings one that begins anew, as CouchDB's clients and devices do after creating it offline. All others follow, whichever revision is greater.
extension Simulation {
    func scheduleBranches(_ start: UInt64) {
        for number in 0..<(5 + random.below(30)) {
            let document = random.below(3)
            let agent = agents[document % agents.count]
            at(start, .load, agent) { $0.branch(agent, DocumentID(stored: "r\(document)"), "\(start)-\(number)") }
        }
    }

    private func branch(_ agent: SimulatedAgent, _ id: DocumentID, _ mark: String) {
        guard let process = agent.process else { return }
        let (collection, dice, generation, digest) = (process.collection, random.below(10), 1 + random.below(3), random.next())
        let deletes = dice < 2
        let number = record.branches[id, default: []].count
        record.branches[id, default: []].append(deletes ? "" : mark)
        record.unanswered[agent.number, default: 0] += 1
        let body = Edits([mark]).body
        process.database.write { transaction -> SimulationRecord.Acknowledged in
            let found = try transaction.document(collection, id)
            if dice > 6, let found, !found.isDeleted { return .init(try transaction.save(collection, id: id, body: body, parent: found.revision)) }
            var saved: SavedRevision?
            if let found, !found.isDeleted { saved = try transaction.save(collection, id: id, body: [], deleted: true, parent: found.revision) }
            if deletes { return .init(try saved ?? transaction.save(collection, id: id, body: [], deleted: true, parent: nil)) }
            let digits = String(digest, radix: 16)
            let revision = RevisionID(stored: "\(generation)-\(digits)\(String(repeating: "0", count: 32 - digits.count))")
            var incoming = IncomingRevision(id: id, revision: revision, history: [], body: body)
            incoming.deletion = .leaf
            guard case .inserted(let sequence) = try transaction.insert(incoming, into: collection, conflicts: .store) else {
                throw StoreError.conflict(id: id, current: found?.revision)
            }
            return .init(sequence: sequence, revision: revision)
        } completion: { [unowned self] in
            guard process.isAlive else { return }
            record.unanswered[agent.number, default: 0] -= 1
            guard case .success(let saved) = $0 else { return record.failures += 1 }
            record.commits += 1
            record.commitsByMachine[agent.number, default: 0] += 1
            record.acknowledged[agent.number, default: [:]][id] = saved
            record.answeredBranches[id] = max(number, record.answeredBranches[id] ?? 0)
            scheduler.note(saved.sequence, "machine \(agent.number): \(id) is \(saved.revision) now, sequence \(saved.sequence)")
        }
    }

    /// Checks that a document is as the only machine that writes it has made it, since nobody else has a say.
    ///
    /// - Parameter body: nil if the document is deleted or not there.
    func checkBranches(_ id: DocumentID, _ body: [UInt8]?) {
        guard let answered = record.answeredBranches[id], let made = record.branches[id], record.everRenewed.isEmpty else { return }
        let mark = body.flatMap { Edits($0).all.first } ?? ""
        // A write that was never answered may have been stored as well.
        guard made[answered...].contains(mark) else {
            return violate("\(id) is \(mark.isEmpty ? "deleted" : mark), but the only machine that writes it has since made it \(made[answered].isEmpty ? "deleted" : made[answered])")
        }
    }
}

extension SimulationRecord.Acknowledged {
    fileprivate init(_ saved: SavedRevision) { self.init(sequence: saved.sequence, revision: saved.revision) }
}
