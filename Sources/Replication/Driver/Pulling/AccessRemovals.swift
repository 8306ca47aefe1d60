import Documents
import DocumentStore
import Encodings
import Interfaces

/// Removals that are applied together, and the steps of that which run in the store and on the pool.
private struct RemovalBatch: Sendable {
    /// What is here of a document that the peer took away.
    struct Found: Sendable {
        /// What the pull filter is shown; nil if the document does not exist here.
        var document: PolicyDocument?
        /// It has an edit that the peer has not received.
        var isEdited: Bool
    }

    let removals: [Removal]
    let slot: Int
    let collection: Collection
    let remote: RemoteID
    let filter: (any DocumentFilter)?
    /// The number of documents of the peer that are listed because they cannot be stored here.
    let notTaken: RefusalCount
    let context: PolicyContext
    /// What need not stay is purged.
    let purges: Bool
    /// Edits are pushed to the peer.
    let pushes: Bool

    /// - Parameter acknowledged: what the peer has acknowledged of each document; the store may not have recorded it yet.
    func find(_ acknowledged: [Version?], _ transaction: ReadTransaction) throws -> [Found] {
        try zip(removals, acknowledged).map { removal, acknowledged -> Found in
            guard let found = try transaction.row(collection, removal.id, remote: remote) else { return Found(document: nil, isEdited: false) }
            let taken = try acknowledged.flatMap { try transaction.revision(named: $0, collection, removal.id) } ?? found.remoteRevision
            return Found(
                document: PolicyDocument(id: removal.id, revision: found.revision, isDeleted: false, body: Array("{}".utf8), accessRemoved: true),
                isEdited: pushes && !found.isDeleted && taken != found.revision)
        }
    }

    /// Asks the pull filter, if anything may be purged.
    func outcomes(_ found: [Found]) async -> [RemovalOutcome] {
        let here = found.compactMap(\.document)
        let asked = purges && !here.isEmpty ? filter : nil
        var verdicts = (await asked?.verdicts(here, context) ?? here.map { _ in .pass }).makeIterator()
        return zip(removals, found).map { removal, found -> RemovalOutcome in
            guard found.document != nil, let verdict = verdicts.next() else { return RemovalOutcome(removal: removal, end: .absent) }
            guard purges else { return RemovalOutcome(removal: removal, end: .kept) }
            switch verdict {
            case .pass where found.isEdited, .replace where found.isEdited: return RemovalOutcome(removal: removal, end: .edited)
            case .pass, .replace: return RemovalOutcome(removal: removal, end: .purged)
            case .reject: return RemovalOutcome(removal: removal, end: .rejected(by: filter?.pluginName ?? ""))
            case .failed(let failure): return RemovalOutcome(removal: removal, end: .failed(failure))
            }
        }
    }

    /// Purges what need not stay, and lists what stays.
    ///
    /// - Parameter revisions: the revision about which the filter was asked, for each document that is here.
    func carryOut(
        _ taken: [RemovalOutcome], _ revisions: [RevisionID?], _ transaction: WriteTransaction
    ) throws -> (ends: [RemovalOutcome], orphans: Int) {
        var (ends, orphans) = ([RemovalOutcome](), [Exclusion]())
        for (var each, var revision) in zip(taken, revisions) {
            if pushes, case .purged = each.end, let now = try transaction.row(collection, each.removal.id), now.revision != revision, !now.isDeleted {
                // Edited while the filter was deciding.
                (each.end, revision) = (.edited, now.revision)
            }
            ends.append(each)
            // Before the purge, which would lose track of a waiting revision. A revision that was never stored must not be stored later either.
            if purges {
                try HeldRevisions.forget(each.removal.id, remote, collection, transaction)
                try NotTakenDocuments.forget([each.removal.id], notTaken, remote, collection, transaction)
            }
            if case .purged = each.end { _ = try transaction.purge(collection, each.removal.id) }
            // If it was an orphan before, it keeps its original time.
            if let orphan = each.orphan(remote, revision, filter: filter) { orphans.append(orphan) }
        }
        try transaction.exclude(collection, orphans)
        return (ends, orphans.count)
    }
}

/// Documents to which the peer revoked our access: they are purged here if the replicator purges automatically. The pull filter may keep them;
/// without its verdict a document stays, as does an edit that the peer has not received (if one was in flight, its answer has been awaited).
/// Documents that stay are listed as orphaned until the peer grants access again.
struct AccessRemovals {
    let driver: SessionDriver

    /// Asks the pull filter about the documents, purges those that need not stay, and reports what became of each.
    func applyRemovals(_ removals: [Removal], _ link: CollectionLink) {
        guard case .active(let active) = driver.role, let remote = link.remote else {
            return driver.tell(link, pull: .removalsApplied(removals.map { RemovalOutcome(removal: $0, end: .kept) }))
        }
        let batch = RemovalBatch(
            removals: removals, slot: link.slot, collection: link.collection, remote: remote, filter: link.pullFilter, notTaken: link.notTaken,
            context: driver.policyContext(link.collection.name, .pull),
            // As in Couchbase Lite, a replicator of chosen documents does not purge.
            purges: active.replicator.autoPurge && link.pull.settings.documentIDs == nil,
            pushes: active.replicator.type.pushes)
        let acknowledged = removals.map { link.push?.acknowledged.version(of: $0.id) }
        driver.read { try batch.find(acknowledged, $0) } then: { $0.removals.judge($1, batch) }
    }

    private func judge(_ found: [RemovalBatch.Found], _ batch: RemovalBatch) {
        driver.ask { await batch.outcomes(found) } then: { $0.removals.carryOut($1, found.map { $0.document?.revision }, batch) }
    }

    private func carryOut(_ taken: [RemovalOutcome], _ revisions: [RevisionID?], _ batch: RemovalBatch) {
        driver.write { try batch.carryOut(taken, revisions, $0) } then: { driver, done in
            let link = driver.links[batch.slot]
            if done.orphans > 0 { link.mayHaveOrphans = true }
            driver.removals.logRemoved(done.ends, orphans: done.orphans, batch.collection.name)
            // Before the machine hears of these, so that the session does not count as done in between.
            if link.pull.removals.isEmpty, link.pull.removalsUnderWay == done.ends.count, let after = link.orphansReviewed {
                link.orphansReviewed = nil
                driver.removals.reviewOrphans(link, after: after)
            }
            driver.tell(link, pull: .removalsApplied(done.ends))
        }
    }

    /// Has the push check later on removals that wait for the peer's answers. A long message on a slow line, or blobs that the peer fetches before it
    /// answers, may take longer.
    func watchRemovals(_ seconds: Int, _ link: CollectionLink) {
        let (slot, generation, before) = (link.slot, link.generation, driver.counters.snapshot)
        driver.later(milliseconds: max(1, seconds * 1_000)) { driver in
            let now = driver.counters.snapshot
            let hasMore = driver.outgoing.count > 0 || driver.dialect.hasPendingOutput || driver.transport.waitingBytes > 0
            // The peer's answer may be waiting on a connection that is not being read.
            let isMoving = driver.accounts.readingIsPaused || now.blobBytesSent != before.blobBytesSent || hasMore && now.bytesSent != before.bytesSent
            driver.tell(slot, generation, push: .removalsWereWatched(isMoving: isMoving))
        }
    }

    /// One line for all of them: access may be revoked for thousands at once.
    private func logRemoved(_ taken: [RemovalOutcome], orphans: Int, _ collection: CollectionName) {
        let purged = taken.count { if case .purged = $0.end { true } else { false } }
        guard purged + orphans > 0 else { return }
        if purged > 0, case .active(let active) = driver.role { active.replicator.purgeObserver(collection, purged) }
        driver.logger.info(
            "access removed: \(Plural.count(purged, "document")) purged, \(orphans) left as orphans",
            metadata: [
                "collection": "\(collection)",
                "documents": "\(taken.prefix(10).map(\.removal.id.text).joined(separator: " "))\(taken.count > 10 ? " ..." : "")",
            ])
    }

    /// The peer offers these documents: they are no longer orphans.
    func endOrphans(_ ids: [DocumentID], _ link: CollectionLink) {
        guard link.mayHaveOrphans, let remote = link.remote else { return }
        let collection = link.collection
        // A one-shot replication does not end before that is recorded.
        driver.pendingSetUp += 1
        driver.write { transaction in
            var ended: [DocumentID] = []
            for id in ids where try transaction.exclusion(collection, remote: remote, direction: .access, id: id) != nil { ended.append(id) }
            try transaction.unexclude(collection, remote: remote, direction: .access, ids: ended)
        } then: { driver, _ in driver.pendingSetUp -= 1 }
    }

    /// Looks for orphans of earlier runs, and retries removals on which the pull filter failed, unless the same version is still in force. It takes
    /// as many at a time as are stored in one transaction, and continues behind them once they are decided.
    func reviewOrphans(_ link: CollectionLink, after reviewed: DocumentID? = nil) {
        guard let remote = link.remote else { return }
        let (slot, collection, limit) = (link.slot, link.collection, driver.limits.insertionBatch)
        let current = link.pullFilter?.version
        driver.pendingSetUp += 1
        driver.read { transaction in
            var (count, after) = (0, reviewed)
            var due: [Removal] = []
            while true {
                let page = try transaction.exclusions(collection, remote: remote, direction: .access, after: after, limit: limit)
                count += page.count
                for row in page where !row.plugin.isEmpty && row.error != RemovalOutcome.keptByFilter && row.version != current {
                    due.append(Removal(id: row.id))
                }
                guard page.count == limit, let last = page.last else { return (count, due, nil) }
                if due.count >= limit { return (count, due, last.id) }
                after = last.id
            }
        } then: { (driver, found: (count: Int, due: [Removal], reviewed: DocumentID?)) in
            driver.pendingSetUp -= 1
            let link = driver.links[slot]
            link.orphansReviewed = found.reviewed
            if found.count > 0 { link.mayHaveOrphans = true }
            if !found.due.isEmpty { driver.tell(link, pull: .removalsAreDue(found.due)) }
        }
    }
}
