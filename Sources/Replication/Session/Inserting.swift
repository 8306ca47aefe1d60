import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The receiving side, second half: bodies are checked, blobs fetched, the filter asked, and a batch is committed.
/// Replies go out, and sequences count as done, only when the commit is durable.
extension ReplicationSession {
    func insertBatch(_ sync: CollectionSync) {
        let pull = sync.pull
        var count = 0
        var bytes = 0
        while count < pull.incoming.count, count < limits.insertionBatch, bytes < limits.insertionBatchBytes {
            bytes += pull.incoming[count].body.readableBytes
            count += 1
        }
        let batch: [ReceivedRevision]
        if count == pull.incoming.count {
            batch = pull.incoming
            pull.incoming = []
        } else {
            batch = Array(pull.incoming.prefix(count))
            pull.incoming.removeFirst(count)
        }
        pull.incomingBytes -= bytes
        pull.batchesInFlight += 1
        work { [bytes] in
            await self.process(sync, batch)
            pull.batchesInFlight -= 1
            pull.buffered -= batch.count
            self.bufferedBytes -= bytes + batch.count * self.limits.bufferedMessageOverhead
            self.scheduleInsertion(sync)
            self.processLists(sync)
        }
    }

    private func process(_ sync: CollectionSync, _ batch: [ReceivedRevision]) async {
        let outcomes = await RevisionChecking.check(batch)
        if hasEnded { return }
        var checked: [CheckedRevision] = []
        checked.reserveCapacity(outcomes.count)
        var removals: [CheckedRevision] = []
        together {
            for outcome in outcomes {
                switch outcome {
                case .checked(let revision) where revision.isRemoval && !isPassive: removals.append(revision)
                case .checked(let revision): checked.append(revision)
                case .refused(let replyTo, _, let id, let sequence, let code, let message):
                    refuse(replyTo, code, message)
                    settleFailed(sync, id, sequence, ReplicationError(domain: .http, code: code, message: message))
                }
            }
        }
        if !removals.isEmpty {
            await takeAway(sync, removals.map { ($0.id, $0.sequence) })
            for revision in removals { reply(to: revision.replyTo) }
        }
        if checked.contains(where: { !$0.blobs.isEmpty }) { checked = await fetchBlobs(sync, checked) }
        if hasEnded { return }
        if let filter = sync.pullFilter, !checked.isEmpty { checked = await filtered(sync, checked, filter) }
        if hasEnded || checked.isEmpty { return }
        if case .passive(let passive) = role, let function = passive.syncFunction {
            await commit(sync, checked, by: function, passive)
        } else {
            await commit(sync, checked)
        }
    }

    func commit(_ sync: CollectionSync, _ batch: [CheckedRevision]) async {
        let collection = sync.collection
        let remote = sync.remote
        let handling: ConflictHandling = !isPassive ? .store : decidesPushes(sync) ? .storePushed : .refuse
        let mayBeHeld = sync.pull.mayHaveHeld
        let results: [Result<InsertOutcome, StoreError>]
        do {
            results = try await database.write { transaction in
                var results: [Result<InsertOutcome, StoreError>] = []
                results.reserveCapacity(batch.count)
                for revision in batch {
                    let incoming = IncomingRevision(
                        id: revision.id, revision: revision.revision, history: revision.history,
                        isDeleted: revision.isDeleted, body: revision.body, isValidated: true,
                        hasBlobs: !revision.blobs.isEmpty, remote: remote)
                    do throws(StoreError) {
                        results.append(.success(try transaction.insert(incoming, into: collection, conflicts: handling)))
                    } catch {
                        // One bad document does not spoil the batch; a store that cannot write does.
                        guard error.concernsOneDocument else { throw error }
                        results.append(.failure(error))
                        continue
                    }
                    if mayBeHeld, let remote { try HeldRevisions.settle(revision, remote, collection, transaction) }
                }
                return results
            }
        } catch {
            commitFailed(sync, batch, error)
            return
        }
        if hasEnded { return }
        together { settle(sync, batch, results) }
        progressed(sync)
    }

    /// A peer that pulls decides its conflicts itself; were both sides to decide, they might never agree. One that only
    /// pushes has nobody but our resolver.
    func decidesPushes(_ sync: CollectionSync) -> Bool { isPassive && sync.resolver != nil && !sync.peerPulls }

    /// Nothing of the batch was stored: the peer keeps it, our rows stay open.
    func commitFailed(_ sync: CollectionSync, _ batch: [CheckedRevision], _ error: any Error) {
        logger.error("\(batch.count) revisions were not stored: \(error)")
        together {
            for revision in batch { refuse(revision.replyTo, 503, "the database cannot take the document now") }
        }
        counters.update {
            $0.failed += UInt64(batch.count)
            $0.completed += UInt64(batch.count)
        }
        if !isPassive { fail(error) }
    }

    func settle(_ sync: CollectionSync, _ batch: [CheckedRevision], _ results: [Result<InsertOutcome, StoreError>]) {
        let name = sync.collection.name
        var conflicts: [DocumentID] = []
        var pulled: UInt64 = 0
        var failed: UInt64 = 0
        let done = OutgoingReply()
        for (revision, result) in zip(batch, results) {
            switch result {
            case .success(.alreadyPresent): reply(to: revision.replyTo, Self.noop)
            case .success(.inserted):
                pulled += 1
                rememberEcho(sync, revision)
                reply(to: revision.replyTo, done)
                report(DocumentEvent(id: revision.id, collection: name, direction: .pull, isDeleted: revision.isDeleted))
            case .success(.insertedConflict):
                pulled += 1
                conflicts.append(revision.id)
                reply(to: revision.replyTo, done)
            case .success(.conflict(let current)):
                refuse(revision.replyTo, 409, "document \(revision.id) is at revision \(current) here")
                failed += 1
            case .failure(let error):
                refuse(revision.replyTo, error.replicationStatus, "\(error)")
                failed += 1
                report(
                    DocumentEvent(
                        id: revision.id, collection: name, direction: .pull,
                        error: ReplicationError(domain: .http, code: error.replicationStatus, message: "\(error)")))
            }
            if let sequence = revision.sequence { sync.pull.tracker?.complete(sequence) }
        }
        counters.update {
            $0.pulled += pulled
            $0.failed += failed
            $0.completed += UInt64(batch.count)
        }
        if !conflicts.isEmpty { decide(sync, conflicts) }
    }

    private static let noop = OutgoingReply(properties: [Property.noop: "true"])

    /// A passive session does not offer a peer what it just got from it.
    private func rememberEcho(_ sync: CollectionSync, _ revision: CheckedRevision) {
        guard isPassive, sync.push != nil else { return }
        if sync.echoes.count >= limits.echoMemory { sync.echoes.removeAll(keepingCapacity: true) }
        sync.echoes[revision.id] = revision.revision
    }

    /// A revision that ended in a final error: its row is done, the reason is told.
    func settleFailed(_ sync: CollectionSync, _ id: DocumentID, _ sequence: RemoteSequence?, _ error: ReplicationError) {
        if let sequence { sync.pull.tracker?.complete(sequence) }
        counters.update {
            $0.failed += 1
            $0.completed += 1
        }
        report(DocumentEvent(id: id, collection: sync.collection.name, direction: .pull, error: error))
    }
}

extension StoreError {
    /// The error says something of one document, not of the store.
    var concernsOneDocument: Bool {
        switch self {
        case .conflict, .conflictMoved, .notFound, .bodyTooLarge, .bodyInvalid, .reservedKey, .historyInvalid, .tooManyBranches,
            .blobMissing:
            true
        default: false
        }
    }

    /// What a peer is told, in HTTP's numbers.
    var replicationStatus: Int {
        switch self {
        case .conflict, .conflictMoved: 409
        case .bodyTooLarge: 413
        case .historyInvalid: 422
        case .notFound, .blobMissing: 404
        case .bodyInvalid, .reservedKey, .tooManyBranches: 400
        default: 503
        }
    }
}
