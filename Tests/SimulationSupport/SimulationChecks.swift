import Documents
import DocumentStore
import Environment
import Replication

/// Checks of what Nightjar promises.
extension Simulation {
    /// A machine's documents by id.
    private struct Replica: Sendable {
        var rows: [DocumentID: ChangeRow] = [:]

        init(_ transaction: ReadTransaction, _ collection: Collection) throws {
            for row in try transaction.changes(collection, since: 0, limit: 10_000, includeBodies: true) { rows[row.id] = row }
        }

        /// Whether it has the revision of this row, or one so much newer that the older may be forgotten, or one whose versions cover it, or another
        /// tombstone in place of a tombstone.
        func has(_ other: ChangeRow) throws -> Bool {
            // Nobody needs the deletion of a document that is not there, or whose tombstone has been dropped.
            guard let row = rows[other.id] else { return other.isDeleted }
            if other.isDeleted, row.isDeleted { return true }
            if row.revision == other.revision || row.revision.generation > other.revision.generation { return true }
            let tree = try row.revisionTree()
            if tree.contains(other.revision) { return true }
            let version = try other.revisionTree().comparableVector(of: other.revision).current
            return tree.vector(of: row.revision)?.knows(version) == true
        }
    }

    /// When both sides say that they are done, everything between them really is done.
    func checkIdle(_ active: SimulatedAgent, _ passive: SimulatedAgent, _ replicator: Replicator, peerStands: Bool) {
        guard let mine = active.look({ try Replica($0, $1) }), let theirs = passive.look({ try Replica($0, $1) }) else { return }
        let (configuration, waiting) = (replicator.configuration, Set(replicator.waiting.all.map(\.id)))
        let kept = active.look { transaction, collection -> Set<DocumentID> in
            guard let remote = try transaction.existingRemote(for: configuration.target) else { return [] }
            return Set(try [.push, .pull].flatMap { try transaction.exclusions(collection, remote: remote, direction: $0, limit: 10_000) }.map(\.id))
        }
        guard let kept else { return }
        let name = "the replicator from machine \(active.number) to machine \(passive.number) is idle"
        func isExcused(_ id: DocumentID) -> Bool {
            isFree(id) || kept.contains(id) || waiting.contains(id) || mayBeDropped(id) || mine.rows[id]?.hasConflict == true
                || plan.hasChannels && id.text.hasPrefix("h")
        }
        do {
            if configuration.type.pushes {
                for (id, row) in mine.rows.sorted(by: { $0.key < $1.key }) where !isExcused(id) {
                    if try !theirs.has(row) {
                        return violate("\(name), but \(id) \(row.revision) has not been pushed")
                    }
                }
            }
            guard configuration.type.pulls, !peerStands else { return }
            let hidden = hidden(theirs, on: passive)
            for (id, row) in theirs.rows.sorted(by: { $0.key < $1.key }) where !isExcused(id) && !hidden.contains(id) {
                if row.isDeleted, mine.rows[id] == nil || record.everRenewed.contains(active.number) { continue }
                if try !mine.has(row) {
                    return violate("\(name), but \(id) \(row.revision) has not been pulled")
                }
            }
        } catch {
            violate("a revision tree cannot be read: \(error)")
        }
    }

    /// What peers do not see, because it is not in their channel or because the feed waits at or before it for channels to be assigned.
    private func hidden(_ replica: Replica, on passive: SimulatedAgent) -> Set<DocumentID> {
        guard plan.hasChannels else { return [] }
        let hidden = passive.look { transaction, collection in
            let access = try transaction.channelAccess(collection, of: ChannelPeer(user: "peer", listener: "main"))
            let question = ChannelQuestion(peer: ChannelPeer(user: "peer", listener: "main"))
            var page = try transaction.channelChanges(collection, from: ChannelPlace(), question, limit: 100)
            while !page.isEnd, !page.isBlocked { page = try transaction.channelChanges(collection, from: page.place, question, limit: 100) }
            let end = page.isBlocked ? page.place.sequence + 1 : .max
            return try Set(
                replica.rows.values.filter { try $0.sequence >= end || !transaction.isVisible(collection, $0.id, $0.revision, to: access) }.map(\.id))
        }
        return hidden ?? Set(replica.rows.keys)
    }

    private func replica(_ agent: SimulatedAgent) -> Replica? {
        do { return try agent.read { try Replica($0, $1) } } catch {
            // Not if the power is about to fail. A damaged database has to say so, which is checked elsewhere.
            if agent.disk.changesUntilPowerCut == nil, !record.damaged.contains(agent.number) { violate("machine \(agent.number) cannot be read: \(error)") }
            return nil
        }
    }

    // MARK: at any time

    /// After a start, everything that was acknowledged is there.
    func checkAcknowledged(_ agent: SimulatedAgent) {
        guard let replica = replica(agent) else { return }
        for (id, acknowledged) in (record.acknowledged[agent.number] ?? [:]).sorted(by: { $0.key < $1.key })
        where !record.purged.contains(id) {
            guard let row = replica.rows[id], row.sequence >= acknowledged.sequence else {
                return violate("machine \(agent.number) lost an acknowledged write: \(id) \(acknowledged.revision)")
            }
            // After a deletion, another branch's tombstone may be the current one, or the other side of a conflict that was pending.
            let isThere = row.revision == acknowledged.revision || (try? row.revisionTree().isTombstone(acknowledged.revision)) == true
                || row.isDeleted && (try? row.revisionTree().contains(acknowledged.revision)) == true
            if row.sequence == acknowledged.sequence, !isThere {
                return violate("machine \(agent.number) has another revision of \(id) than the one it acknowledged")
            }
        }
    }

    /// No checkpoint is ahead of the data: what it says has reached the other side is there.
    func checkCheckpoint(_ active: SimulatedAgent, _ passive: SimulatedAgent) {
        guard let process = active.process, passive.process != nil else { return }
        guard let mine = replica(active), let theirs = replica(passive) else { return }
        guard let replicator = process.replicators.first(where: { $0.configuration.target == "machine-\(passive.number)" }) else { return }
        let configuration = replicator.configuration
        let id = configuration.checkpointID(of: configuration.collections[0], privateUUID: process.database.privateUUID)
        let found = try? active.read { transaction, collection -> (CheckpointBody, Set<DocumentID>, Set<DocumentID>)? in
            guard let stored = try transaction.checkpoint(id: id, collection: collection),
                let remote = try transaction.existingRemote(for: configuration.target)
            else { return nil }
            let held = try transaction.exclusions(collection, remote: remote, direction: .pull, limit: 10_000).map(\.id)
            let kept = try transaction.exclusions(collection, remote: remote, direction: .push, limit: 10_000).map(\.id)
            return (CheckpointBody(parsing: stored.body), Set(kept), Set(held))
        }
        guard let (checkpoint, kept, held) = found ?? nil else { return }
        let between = "between machine \(active.number) and machine \(passive.number)"
        do {
            for (id, row) in mine.rows.sorted(by: { $0.key < $1.key }) where row.sequence <= checkpoint.local {
                // A document that the pull holds back is not pushed until the pull has dealt with it.
                if isFree(id) || kept.contains(id) || held.contains(id) || row.hasConflict || mayBeDropped(id) { continue }
                if try !theirs.has(row) {
                    return violate("the checkpoint \(between) says that sequence \(row.sequence) has been pushed, but \(id) \(row.revision) is not there")
                }
            }
            guard let remote = checkpoint.remote?.integer else { return }
            for (id, row) in theirs.rows.sorted(by: { $0.key < $1.key }) where row.sequence <= remote {
                if isFree(id) || held.contains(id) || mayBeDropped(id) || plan.hasChannels && id.text.hasPrefix("h") { continue }
                // A machine that never heard of a document need not hear of its deletion, and may create one of the same name.
                if row.isDeleted, mine.rows[id].map({ $0.sequence > checkpoint.local }) ?? true || record.everRenewed.contains(active.number) { continue }
                if try !mine.has(row) {
                    // A listener whose filter fails on a document after it has been announced tells the peer to move on, and owes it by its own list. If
                    // that cannot be read, because the disk fails, this is checked another time.
                    let lists = try? passive.read { transaction, collection in
                        try transaction.exclusions(collection, direction: .push, kind: .held, limit: 10_000).map(\.id)
                    }
                    guard let owed = lists ?? nil else { return }
                    if owed.contains(id) { continue }
                    return violate("the checkpoint \(between) says that sequence \(row.sequence) has been pulled, but \(id) \(row.revision) is not here")
                }
            }
        } catch {
            violate("a revision tree cannot be read: \(error)")
        }
    }

    /// Nothing is promised about what was purged or every filter rejects (x), and `checkChannels` checks documents of channels (c).
    private func isFree(_ id: DocumentID) -> Bool { record.purged.contains(id) || id.text.hasPrefix("x") || id.text.hasPrefix("c") }

    /// Where several machines decide the same conflict, or follow one another to another branch, one may have dropped what another kept.
    private func mayBeDropped(_ id: DocumentID) -> Bool {
        [.hubs, .unlinkedHubs, .ring, .lasso, .chain].contains(plan.topology) && (record.decided.contains(id) || record.branches[id] != nil)
    }

    // MARK: at rest

    func checkAtRest() {
        for agent in agents {
            guard let process = agent.process else { return violate("machine \(agent.number) is down after the fleet healed") }
            if let count = record.unanswered[agent.number], count != 0 {
                violate("machine \(agent.number) has left \(count) writes unanswered")
            }
            for (link, replicator) in zip(agent.links, process.replicators) { checkStatus(agent, link, replicator) }
            for (_, session) in process.sessions.sorted(by: { $0.key < $1.key }) {
                if session.activity != .idle {
                    violate("machine \(agent.number) has a session that is \(session.activity) although nothing is left to happen")
                }
                let counts = session.counters.snapshot
                if counts.completed != counts.total {
                    violate("machine \(agent.number) has an idle session with \(counts.completed) of \(counts.total) documents completed")
                }
            }
            checkAcknowledged(agent)
        }
        checkConvergence()
        if plan.hasChannels { checkChannels() }
        checkAccounts()
        for link in plan.links { checkCheckpoint(agents[link.from], agents[link.to]) }
        checkTraffic()
    }

    private func checkStatus(_ agent: SimulatedAgent, _ link: SimulatedLink, _ replicator: Replicator) {
        let name = "the replicator from machine \(agent.number) to machine \(link.to)"
        let status = replicator.status
        if status.activity != .idle {
            violate("\(name) is \(status.activity) although nothing is left to happen (\(status.error.map { "\($0)" } ?? "no error"))")
        }
        let counts = replicator.rawCounts
        if counts.completed != counts.total { violate("\(name) is idle with \(counts.completed) of \(counts.total) documents completed") }
        let waiting = pending(agent, replicator)?.filter { !isFree(DocumentID(stored: $0)) } ?? []
        if !waiting.isEmpty { violate("\(name) is idle although these documents wait to be pushed: \(waiting.joined(separator: ", "))") }
    }

    /// What the replicator says is still to be pushed; nil if it cannot say.
    private func pending(_ agent: SimulatedAgent, _ replicator: Replicator) -> [String]? {
        let record = record
        record.pending = nil
        agent.process?.environment.task {
            let found = try? await replicator.pendingDocumentIDs()
            record.pending = found?.map(\.1.text)
        }
        while scheduler.step(until: scheduler.now + 1_000_000_000) {}
        return record.pending
    }

    private func checkConvergence() {
        var replicas: [Replica] = []
        for agent in agents {
            guard let replica = replica(agent) else { return }
            replicas.append(replica)
        }
        let ids = Set(replicas.flatMap { $0.rows.keys }).union(record.edits.keys).sorted()
        for id in ids where !isFree(id) {
            // A machine that never heard of a document need not hear of its deletion.
            let states = replicas.map { replica -> String in
                guard let row = replica.rows[id] else { return "deleted" }
                return row.isDeleted ? "deleted" : row.revision.text
            }
            if Set(states).count > 1 {
                let list = states.enumerated().map { "machine \($0): \($1)" }.joined(separator: ", ")
                return violate("the replicas do not agree on \(id): \(list)")
            }
            checkBranches(id, replicas[0].rows[id].flatMap { $0.isDeleted ? nil : $0.body ?? [] })
            for (number, replica) in replicas.enumerated() {
                guard let row = replica.rows[id], !row.isDeleted else { continue }
                if row.hasConflict { return violate("machine \(number) still has a conflict of \(id)") }
                let edits = Edits(row.body ?? [])
                if plan.unites, let lost = record.edits[id]?.subtracting(edits.all).min() {
                    return violate("the edit \(lost) of \(id) was acknowledged, but is lost on machine \(number)")
                }
                if let blob = edits.blob { checkBlob(agents[number], id, blob) }
            }
            if record.edits[id] != nil, states.contains("deleted") { return violate("\(id) is gone although nobody deleted it") }
        }
    }

    /// Of the documents that only the listener's machine writes, a peer has those in its channel and no others.
    private func checkChannels() {
        for link in plan.links {
            guard let hub = replica(agents[link.to]), let spoke = replica(agents[link.from]) else { return }
            for (id, row) in hub.rows.sorted(by: { $0.key < $1.key }) where id.text.hasPrefix("c") {
                let theirs = spoke.rows[id].flatMap { $0.isDeleted ? nil : $0.revision }
                if Edits(row.body ?? []).isHidden {
                    if theirs != nil { return violate("machine \(link.from) still has \(id), which has left its channel") }
                } else if theirs != row.revision {
                    return violate("machine \(link.from) does not have \(id) \(row.revision), which is in its channel")
                }
            }
        }
    }

    private func checkBlob(_ agent: SimulatedAgent, _ id: DocumentID, _ text: String) {
        guard let process = agent.process, let digest = try? BlobDigest(text) else { return }
        do { _ = try process.database.blobs.read(digest) } catch {
            violate("machine \(agent.number) has \(id) without its blob: \(error)")
        }
    }

    /// Traffic is bounded by what changed: nothing is sent over and over.
    private func checkTraffic() {
        let bound = 200 + 60 * (record.commits + 2) * plan.links.count * (1 + network.connections / plan.links.count)
        if network.messages > bound {
            violate("\(network.messages) messages for \(record.commits) writes over \(network.connections) connections")
        }
        guard plan.isCalm, plan.topology == .pair, let process = agents[0].process else { return }
        let counts = process.replicators[0].status.counts
        // Each write crosses once, as does each decision of a conflict; nobody offers back what they were given.
        let most = UInt64(record.commits) + 2 * counts.resolved + counts.held + counts.rejected + counts.failed
        // Of documents that were created on both sides, the peer may be offered the end of a branch and then the document, or be offered once more what it has
        // refused in the meantime.
        let recreated = record.acknowledged.values.reduce(into: Set()) { $0.formUnion($1.keys.filter { $0.text.hasPrefix("n") }) }
        if counts.total > most + UInt64(record.purged.count + 3 * recreated.count) {
            violate("\(counts.total) documents were looked at for \(record.commits) writes and \(counts.resolved) decisions: some were offered back")
        }
    }
}
