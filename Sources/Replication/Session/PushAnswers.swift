import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The peer's answers to what we offer and send.
extension ReplicationSession {
    func handleProposalReply(_ sync: CollectionSync, _ feed: PushFeed, _ rows: [PushRow], _ reply: IncomingReply) {
        feed.listsInFlight -= 1
        defer { feed.wake() }
        if let error = reply.error {
            connectionLevelError(error, Profile.proposeChanges)
            return
        }
        notePeer(sync, reply.properties)
        let statuses = ChangeRows.readProposalReply([UInt8](reply.body.readableBytesView), rows: rows.count)
        var refused: [(PushRow, RevisionID?)] = []
        for (row, status) in zip(rows, statuses) {
            switch status.status {
            case 0: feed.wanted.append(row)
            case 304:
                mark(feed, row)
                done(sync, feed, row)
            case 409: refused.append((row, status.current))
            default:
                let error = ReplicationError(domain: .http, code: status.status, message: "the peer refused the document")
                if error.isTransient, status.status != 500 {
                    report(event(sync, row, error))
                    deferRow(sync, feed, row)
                } else {
                    failed(sync, feed, row, error)
                }
            }
        }
        if !refused.isEmpty { work { await self.conflicted(sync, feed, refused) } }
        sendWanted(sync, feed)
    }

    /// The peer holds another revision: offered again if ours descends from it, else the pull brings it.
    private func conflicted(_ sync: CollectionSync, _ feed: PushFeed, _ rows: [(PushRow, RevisionID?)]) async {
        let collection = sync.collection
        let questions = rows.map { ($0.0.id, $0.0.revision, $0.1) }
        let histories = try? await database.read { transaction -> [[RevisionID]?] in
            try questions.map { id, revision, current in
                guard let current, let tree = try transaction.tree(collection, id) else { return nil }
                let ancestors = tree.ancestors(of: revision)
                guard let at = ancestors.firstIndex(of: current) else { return nil }
                return Array(ancestors[...at])
            }
        }
        if hasEnded { return }
        for (index, (row, current)) in rows.enumerated() {
            if let history = histories?[index] {
                var again = row
                again.peerRevision = current
                again.history = history
                feed.inFlight.remove(row.id)
                feed.again.append(again)
            } else if sync.pull.isSubscribed {
                // The peer's revision is on its way here; deciding the conflict makes a new one to push.
                done(sync, feed, row)
            } else {
                failed(
                    sync, feed, row,
                    ReplicationError(
                        domain: .websocket, code: 409,
                        message: "the peer holds another revision\(current.map { " (\($0))" } ?? ""), and this replicator does not pull"))
            }
        }
        feed.wake()
    }

    func handleChangesReply(_ sync: CollectionSync, _ feed: PushFeed, _ rows: [PushRow], _ reply: IncomingReply) {
        feed.listsInFlight -= 1
        defer { feed.wake() }
        if let error = reply.error {
            logger.notice("the peer refused a list of changes: \(error)")
            for row in rows { done(sync, feed, row) }
            return
        }
        notePeer(sync, reply.properties)
        let wishes = ChangeRows.readChangesReply([UInt8](reply.body.readableBytesView), rows: rows.count)
        for (var row, wish) in zip(rows, wishes) {
            guard let ancestors = wish else {
                done(sync, feed, row)
                continue
            }
            // The history ends at the newest ancestor that the peer holds.
            if let cut = row.history.firstIndex(where: { ancestors.contains($0) }) {
                row.history = Array(row.history[...cut])
            }
            feed.wanted.append(row)
        }
        sendWanted(sync, feed)
    }

    private func notePeer(_ sync: CollectionSync, _ properties: BLIPProperties) {
        if isTrue(properties[Property.blobs]) { sync.peerKnowsBlobs = true }
        if let text = properties[Property.maxHistory], let wanted = Int(text), wanted > 0 {
            sync.peerMaximumHistory = min(wanted, limits.maximumReceivedHistory)
        }
    }

    // MARK: - Sending

    func sendWanted(_ sync: CollectionSync, _ feed: PushFeed) {
        together { sendWantedRevisions(sync, feed) }
    }

    private func sendWantedRevisions(_ sync: CollectionSync, _ feed: PushFeed) {
        while feed.wantedHead < feed.wanted.count, feed.revisionsInFlight < limits.revisionsInFlight,
            feed.bytesInFlight < limits.revisionBytesInFlight
        {
            let row = feed.wanted[feed.wantedHead]
            feed.wantedHead += 1
            sendRevision(sync, feed, row)
        }
        if feed.wantedHead == feed.wanted.count {
            feed.wanted.removeAll(keepingCapacity: true)
            feed.wantedHead = 0
        } else if feed.wantedHead > 1024 {
            feed.wanted.removeFirst(feed.wantedHead)
            feed.wantedHead = 0
        }
    }

    private func sendRevision(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow) {
        var message = OutgoingRequest(profile: Profile.rev, isCompressed: true)
        if let index = sync.wireIndex { message.properties.append(Property.collection, String(index)) }
        message.properties.append(Property.id, row.id.text)
        message.properties.append(Property.rev, row.revision.text)
        if row.isDeleted { message.properties.append(Property.deleted, "1") }
        message.properties.append(Property.sequence, row.sequenceJSON)
        if !row.history.isEmpty {
            message.properties.append(Property.history, row.history.map(\.text).joined(separator: ","))
        }
        if feed.style == .propose { message.properties.append(Property.noConflicts, "1") }
        if row.hasBlobs, !sync.peerKnowsBlobs {
            message.body = ByteBuffer(bytes: (try? LegacyAttachments.add(to: row.body, generation: row.revision.generation)) ?? row.body)
        } else {
            message.body = row.body.isEmpty ? ByteBuffer(string: "{}") : ByteBuffer(bytes: row.body)
        }
        if row.hasBlobs { lendBlobs(of: row) }
        feed.revisionsInFlight += 1
        feed.bytesInFlight += row.body.count
        send(message, .revision(sync, feed, row))
    }

    func handleRevReply(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow, _ reply: IncomingReply) {
        let wasFull = feed.isFull(limits)
        feed.revisionsInFlight -= 1
        feed.bytesInFlight -= row.body.count
        if row.hasBlobs { takeBackBlobs(of: row) }
        if let error = reply.error {
            revisionRefused(sync, feed, row, error)
        } else {
            mark(feed, row)
            counters.update { $0.pushed += 1 }
            report(
                DocumentEvent(id: row.id, collection: sync.collection.name, direction: .push, isDeleted: row.isDeleted))
            done(sync, feed, row)
        }
        if feed.wantedCount > 0 { sendWanted(sync, feed) }
        if wasFull || !feed.again.isEmpty || feed.revisionsInFlight == 0 { feed.wake() }
        if feed.unsavedMarks.count >= 1_000 { work { await self.flushMarks(sync) } }
    }

    private func revisionRefused(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow, _ error: BLIPErrorReply) {
        let failure = ReplicationError(reply: error, to: Profile.rev)
        if feed.style == .changes {
            logger.notice("peer could not take \(row.id): \(error)")
            done(sync, feed, row)
        } else if error.domain == "HTTP", error.code == 403, !row.wasForbidden {
            var again = row
            again.wasForbidden = true
            feed.inFlight.remove(row.id)
            feed.again.append(again)
        } else if failure.isTransient {
            report(event(sync, row, failure))
            deferRow(sync, feed, row)
        } else {
            failed(sync, feed, row, failure)
        }
    }

    private func failed(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow, _ error: ReplicationError) {
        counters.update { $0.failed += 1 }
        report(event(sync, row, error))
        done(sync, feed, row)
    }

    private func event(_ sync: CollectionSync, _ row: PushRow, _ error: ReplicationError) -> DocumentEvent {
        DocumentEvent(
            id: row.id, collection: sync.collection.name, direction: .push, isDeleted: row.isDeleted, error: error)
    }

    /// The peer holds this revision: noted in memory now, in the store with the next batch.
    private func mark(_ feed: PushFeed, _ row: PushRow) {
        guard feed.style == .propose else { return }
        feed.acknowledged[row.id] = row.revision
        feed.unsavedMarks.append((row.id, row.revision))
        if feed.mayHaveExclusions { feed.unsavedInclusions.insert(row.id) }
    }
}
