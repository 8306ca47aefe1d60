import Documents
import DocumentStore
import Encodings
import Interfaces

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
        let (slot, collection, filter) = (link.slot, link.collection, link.pullFilter)
        // As in Couchbase Lite, a replicator of chosen documents does not purge.
        let purges = active.replicator.autoPurge && link.pull.settings.documentIDs == nil
        let context = driver.policyContext(collection.name, .pull)
        // The store may not have recorded yet what the peer acknowledged.
        let acknowledged = removals.map { link.push?.acknowledged.version(of: $0.id) }
        let pushes = active.replicator.type.pushes
        driver.read { transaction in
            try zip(removals, acknowledged).map { removal, acknowledged -> (document: PolicyDocument?, isEdited: Bool) in
                guard let found = try transaction.row(collection, removal.id, remote: remote) else { return (nil, false) }
                let taken = try acknowledged.flatMap { try transaction.revision(named: $0, collection, removal.id) } ?? found.remoteRevision
                return (
                    PolicyDocument(id: removal.id, revision: found.revision, isDeleted: false, body: Array("{}".utf8), accessRemoved: true),
                    pushes && !found.isDeleted && taken != found.revision
                )
            }
        } then: { driver, found in
            let (documents, edited) = (found.map(\.document), found.map(\.isEdited))
            driver.ask { () async -> [RemovalOutcome] in
                let here = documents.compactMap { $0 }
                let asked = purges && !here.isEmpty ? filter : nil
                var verdicts = (await asked?.verdicts(here, context) ?? here.map { _ in .pass }).makeIterator()
                return zip(zip(removals, documents), edited).map { each, isEdited in
                    let (removal, document) = each
                    guard document != nil, let verdict = verdicts.next() else { return RemovalOutcome(removal: removal, end: .absent) }
                    guard purges else { return RemovalOutcome(removal: removal, end: .kept) }
                    switch verdict {
                    case .pass where isEdited, .replace where isEdited: return RemovalOutcome(removal: removal, end: .edited)
                    case .pass, .replace: return RemovalOutcome(removal: removal, end: .purged)
                    case .reject: return RemovalOutcome(removal: removal, end: .rejected(by: filter?.pluginName ?? ""))
                    case .failed(let failure): return RemovalOutcome(removal: removal, end: .failed(failure))
                    }
                }
            } then: { driver, taken in
                let revisions = documents.map { $0?.revision }
                driver.write { transaction in
                    var (ends, orphans) = ([RemovalOutcome](), [Exclusion]())
                    for (var each, var revision) in zip(taken, revisions) {
                        if pushes, case .purged = each.end, let now = try transaction.row(collection, each.removal.id), now.revision != revision, !now.isDeleted {
                            // Edited while the filter was deciding.
                            (each.end, revision) = (.edited, now.revision)
                        }
                        ends.append(each)
                        // Before the purge, which would lose track of a waiting revision. A revision that was never stored must not be stored later
                        // either.
                        if purges { try HeldRevisions.forget(each.removal.id, remote, collection, transaction) }
                        if case .purged = each.end { _ = try transaction.purge(collection, each.removal.id) }
                        // If it was an orphan before, it keeps its original time.
                        if let orphan = each.orphan(remote, revision, filter: filter) { orphans.append(orphan) }
                    }
                    try transaction.exclude(collection, orphans)
                    return (ends, orphans.count)
                } then: { (driver, done: (ends: [RemovalOutcome], orphans: Int)) in
                    let link = driver.links[slot]
                    if done.orphans > 0 { link.mayHaveOrphans = true }
                    driver.removals.logRemoved(done.ends, orphans: done.orphans, collection.name)
                    // Before the machine hears of these, so that the session does not count as done in between.
                    if link.pull.removals.isEmpty, link.pull.removalsUnderWay == done.ends.count, let after = link.orphansReviewed {
                        link.orphansReviewed = nil
                        driver.removals.reviewOrphans(link, after: after)
                    }
                    driver.tell(link, pull: .removalsApplied(done.ends))
                }
            }
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
