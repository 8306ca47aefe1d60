import Documents
import DocumentStore
import Interfaces

/// The pull filter: asked before anything is stored; what it keeps back waits for another version of it.
extension ReplicationSession {
    /// The revisions that pass.
    func filtered(_ sync: CollectionSync, _ batch: [CheckedRevision], _ filter: any DocumentFilter) async -> [CheckedRevision] {
        let version = filter.version
        let documents = batch.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body) }
        let verdicts = await filter.evaluate(documents, policyContext(sync, .pull))
        if hasEnded { return [] }
        var passed: [CheckedRevision] = []
        passed.reserveCapacity(batch.count)
        var held: [HeldRevision] = []
        var kept: [(CheckedRevision, PolicyFailure?)] = []
        for (index, revision) in batch.enumerated() {
            switch index < verdicts.count ? verdicts[index] : filter.missingVerdict {
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
            sync.pull.mayHaveHeld = true
            do { try await database.write { [held] in try HeldRevisions.keep(held, remote, collection, $0) } } catch {
                fail(error)
                return []
            }
            if hasEnded { return [] }
        }
        together { tellKept(sync, kept) }
        return passed
    }

    private func tellKept(_ sync: CollectionSync, _ kept: [(CheckedRevision, PolicyFailure?)]) {
        var rejected: UInt64 = 0
        for (revision, failure) in kept {
            if let failure {
                report(
                    DocumentEvent(
                        id: revision.id, collection: sync.collection.name, direction: .pull, isDeleted: revision.isDeleted,
                        error: ReplicationError(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")))
            } else {
                rejected += 1
            }
            if isPassive {
                // 503 keeps the document at the peer; 403 makes it give the revision up.
                refuse(
                    revision.replyTo, failure == nil ? 403 : 503,
                    failure.map { "the document is held: \($0.kind)" } ?? "a filter refused the document")
            } else {
                // Dealt with: an error would only make some peers send it once more.
                reply(to: revision.replyTo)
            }
            if let sequence = revision.sequence { sync.pull.tracker?.complete(sequence) }
        }
        counters.update {
            $0.rejected += rejected
            $0.held += UInt64(kept.count) - rejected
            $0.completed += UInt64(kept.count)
        }
        progressed(sync)
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
        evaluate()
    }

    private func resolverChanged(_ slot: Int) {
        guard slot < collections.count, !hasEnded else { return }
        let sync = collections[slot]
        work { await self.takeUpConflicts(sync) }
        evaluate()
    }

    /// Asks the filter anew about the revisions it kept back, and stores those that pass now. A revision stays on the list
    /// until the transaction that stores it.
    func takeUpHeldRevisions(_ sync: CollectionSync) async {
        guard let remote = sync.remote else { return }
        let collection = sync.collection
        let current = sync.pullFilter.map { ($0.pluginName, $0.version) }
        var after: DocumentID?
        repeat {
            let start = after
            do {
                let page = try await database.read { transaction in
                    try HeldRevisions.page(collection, remote, after: start, unlessJudgedBy: current, transaction)
                }
                after = page.next
                if hasEnded { return }
                if page.isAny { sync.pull.mayHaveHeld = true }
                guard !page.revisions.isEmpty else { continue }
                counters.update { $0.total += UInt64(page.revisions.count) }
                var revisions = await fetchBlobs(sync, page.revisions)
                if let filter = sync.pullFilter, !revisions.isEmpty { revisions = await filtered(sync, revisions, filter) }
                if !revisions.isEmpty, !hasEnded { await commit(sync, revisions) }
            } catch {
                fail(error)
                return
            }
        } while after != nil && !hasEnded
    }
}
