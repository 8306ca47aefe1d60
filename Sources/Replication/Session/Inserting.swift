import BLIP
import Documents
import DocumentStore
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
        var removals: [(DocumentID, RemoteSequence?)] = []
        for outcome in outcomes {
            switch outcome {
            case .checked(let revision) where revision.isRemoval && !isPassive:
                removals.append((revision.id, revision.sequence))
                reply(to: revision.replyTo)
            case .checked(let revision): checked.append(revision)
            case .refused(let replyTo, _, let id, let sequence, let code, let message):
                refuse(replyTo, code, message)
                settleFailed(sync, id, sequence, ReplicationError(domain: .http, code: code, message: message))
            }
        }
        if !removals.isEmpty { await takeAway(sync, removals) }
        if checked.contains(where: { !$0.blobs.isEmpty }) { checked = await fetchBlobs(sync, checked) }
        if hasEnded { return }
        if let filter = sync.pullFilter, !checked.isEmpty { checked = await filtered(sync, checked, filter) }
        if hasEnded || checked.isEmpty { return }
        together { }
        await commit(sync, checked)
    }

    private func commit(_ sync: CollectionSync, _ batch: [CheckedRevision]) async {
        let collection = sync.collection
        let remote = sync.remote
        let handling: ConflictHandling = isPassive ? .refuse : .store
        let results: [Result<InsertOutcome, StoreError>]
        do {
            results = try await database.write { transaction in
                var results: [Result<InsertOutcome, StoreError>] = []
                results.reserveCapacity(batch.count)
                for revision in batch {
                    if let forgets, mayBeHeld { try HeldRevisions.forget(revision, forgets, collection, transaction) }
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
                    }
                }
                return results
            }
        } catch {
            for revision in batch { storeFailed(revision.replyTo, error) }
            counters.update { $0.failed += UInt64(batch.count) }
            if !isPassive { fail(error) }
            return
        }
        if hasEnded { return }
        var conflicts: [DocumentID] = []
        var pulled: UInt64 = 0
        var noop = OutgoingReply()
        noop.properties.append(Property.noop, "true")
        for (revision, result) in zip(batch, results) {
            switch result {
            case .success(.alreadyPresent):
                reply(to: revision.replyTo, noop)
            case .success(.inserted):
                pulled += 1
                rememberEcho(sync, revision)
                reply(to: revision.replyTo)
                report(
                    DocumentEvent(
                        id: revision.id, collection: collection.name, direction: .pull, isDeleted: revision.isDeleted))
            case .success(.insertedConflict):
                pulled += 1
                conflicts.append(revision.id)
                reply(to: revision.replyTo)
            case .success(.conflict(let current)):
                refuse(revision.replyTo, 409, "document \(revision.id) is at revision \(current) here")
                counters.update { $0.failed += 1 }
            case .failure(let error):
                refuse(revision.replyTo, error.replicationStatus, "\(error)")
                counters.update { $0.failed += 1 }
                report(
                    DocumentEvent(
                        id: revision.id, collection: collection.name, direction: .pull,
                        error: ReplicationError(domain: .http, code: error.replicationStatus, message: "\(error)")))
            }
            if let sequence = revision.sequence { sync.pull.tracker?.complete(sequence) }
        }
        counters.update {
            $0.pulled += pulled
            $0.completed += UInt64(batch.count)
        }
        if !conflicts.isEmpty { decide(sync, conflicts) }
        progressed(sync)
    }

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

    // MARK: - The filter

    private func filtered(
        _ sync: CollectionSync, _ batch: [CheckedRevision], _ filter: any DocumentFilter
    ) async -> [CheckedRevision] {
        let version = filter.version
        let documents = batch.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body) }
        let verdicts = await filter.evaluate(documents, policyContext(sync, .pull))
        var passed: [CheckedRevision] = []
        passed.reserveCapacity(batch.count)
        var held: [HeldRevision] = []
        var kept: [(CheckedRevision, PolicyFailure?)] = []
        for (revision, verdict) in zip(batch, verdicts) {
            switch verdict {
            case .pass: passed.append(revision)
            case .reject:
                kept.append((revision, nil))
                held.append(HeldRevision(revision, plugin: filter.pluginName, version: version, error: nil))
            case .failed(let failure):
                kept.append((revision, failure))
                held.append(HeldRevision(revision, plugin: failure.plugin, version: failure.version, error: failure.message))
            }
        }
        guard !kept.isEmpty else { return passed }
        if let remote = sync.remote {
            // The revision itself is kept, so that a repaired or changed filter needs no new pull.
            let collection = sync.collection
            do { try await database.write { [held] in try HeldRevisions.keep(held, remote, collection, $0) } } catch {
                fail(error)
                return []
            }
        }
        if hasEnded { return [] }
        for (revision, failure) in kept {
            if let failure {
                refuse(revision.replyTo, 503, "the document is held: \(failure.kind)")
                counters.update { $0.held += 1 }
                report(
                    DocumentEvent(
                        id: revision.id, collection: sync.collection.name, direction: .pull, isDeleted: revision.isDeleted,
                        error: ReplicationError(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")))
            } else {
                refuse(revision.replyTo, 403, "a filter refused the document")
                counters.update { $0.rejected += 1 }
            }
            if let sequence = revision.sequence { sync.pull.tracker?.complete(sequence) }
            counters.update { $0.completed += 1 }
        }
        return passed
    }

    /// A pull filter or resolver that changed is asked again about what its old version kept back.
    func watchPullPolicies(_ sync: CollectionSync) {
        let slot = sync.slot
        if let filter = sync.pullFilter {
            let versions = filter.versionChanges()
            sync.pull.tasks.append(
                Task { [weak self] in
                    for await _ in versions { await self?.pullFilterChanged(slot) }
                })
        }
        if let resolver = sync.resolver?.resolver {
            let versions = resolver.versionChanges()
            sync.pull.tasks.append(
                Task { [weak self] in
                    for await _ in versions { await self?.resolverChanged(slot) }
                })
        }
    }

    private func pullFilterChanged(_ slot: Int) {
        guard slot < collections.count, !hasEnded else { return }
        let sync = collections[slot]
        work { await self.takeUpHeldRevisions(sync) }
    }

    private func resolverChanged(_ slot: Int) {
        guard slot < collections.count, !hasEnded else { return }
        let sync = collections[slot]
        work { await self.takeUpConflicts(sync) }
    }

    /// Asks the filter anew about the revisions it kept back, and stores those that pass now.
    func takeUpHeldRevisions(_ sync: CollectionSync) async {
        guard let remote = sync.remote else { return }
        let collection = sync.collection
        let current = sync.pullFilter.map { ($0.pluginName, $0.version) }
        var after: DocumentID?
        repeat {
            let start = after
            do {
                let (held, next) = try await database.read { transaction in
                    try HeldRevisions.page(collection, remote, after: start, unlessJudgedBy: current, transaction)
                }
                after = next
                if hasEnded { return }
                guard !held.isEmpty else { continue }
                let ids = held.map(\.id)
                try await database.write { try HeldRevisions.forget(ids, remote, collection, $0) }
                var revisions = await fetchBlobs(sync, held)
                if let filter = sync.pullFilter, !revisions.isEmpty { revisions = await filtered(sync, revisions, filter) }
                if !revisions.isEmpty, !hasEnded { await commit(sync, revisions) }
            } catch {
                fail(error)
                return
            }
        } while after != nil && !hasEnded
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
