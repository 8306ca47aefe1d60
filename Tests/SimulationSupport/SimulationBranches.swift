import Documents
import DocumentStore

/// Documents that one machine alone writes, and whose branches end there: what is current is deleted, and somebody who never had the document
/// brings another beginning, as CouchDB's clients and devices do that made theirs off line. Everybody else follows, whichever revision is the greater.
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

    /// Nobody else has edited these, so that nobody else has a say.
    ///
    /// - Parameter body: nil where the document is deleted or not there.
    func checkBranches(_ id: DocumentID, _ body: [UInt8]?) {
        guard let answered = record.answeredBranches[id], let made = record.branches[id], record.everRenewed.isEmpty else { return }
        let mark = body.flatMap { Edits($0).all.first } ?? ""
        // What was not answered may have been stored as well.
        guard made[answered...].contains(mark) else {
            return violate("\(id) is \(mark.isEmpty ? "deleted" : mark), but the only machine that writes it has made it \(made[answered]) since")
        }
    }
}

extension SimulationRecord.Acknowledged {
    fileprivate init(_ saved: SavedRevision) { self.init(sequence: saved.sequence, revision: saved.revision) }
}
