import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore

/// The pushing side: reads the change feed, asks the filter, offers, sends what is wanted.
extension ReplicationSession {
    /// Starts the loop of a feed and what wakes it.
    func startPush(_ sync: CollectionSync, _ feed: PushFeed) {
        let signal = database.changeSignal(sync.collection)
        let slot = sync.slot
        feed.tasks.append(
            Task { [weak self] in
                for await newest in signal {
                    guard let self else { return }
                    await self.storeChanged(slot, newest)
                }
            })
        if let filter = sync.pushFilter {
            let versions = filter.versionChanges()
            feed.tasks.append(
                Task { [weak self] in
                    for await _ in versions {
                        guard let self else { return }
                        await self.pushFilterChanged(slot)
                    }
                })
        }
        feed.tasks.append(Task { await self.runPush(sync, feed) })
    }

    private func storeChanged(_ slot: Int, _ newest: SequenceNumber) {
        guard slot < collections.count, let feed = collections[slot].push else { return }
        feed.newest = max(feed.newest, newest)
        feed.channels?.isStalled = false
        if newest > feed.cursor {
            feed.reachedEnd = false
            feed.isCaughtUp = false
        }
        feed.wake()
        evaluate()
    }

    private func pushFilterChanged(_ slot: Int) {
        guard slot < collections.count, let feed = collections[slot].push, feed.style == .propose else { return }
        feed.needsReoffer = true
        feed.isCaughtUp = false
        feed.wake()
        evaluate()
    }

    private func runPush(_ sync: CollectionSync, _ feed: PushFeed) async {
        var wakes = feed.wakes.makeAsyncIterator()
        do {
            while !hasEnded, !feed.isFinished {
                if feed.isFull(limits) {
                    guard await wakes.next(isolation: self) != nil else { return }
                } else if !feed.again.isEmpty {
                    let rows = feed.again
                    feed.again = []
                    try await offer(sync, feed, rows)
                } else if feed.needsReoffer {
                    feed.needsReoffer = false
                    try await reoffer(sync, feed)
                } else if feed.retriesDeferred {
                    feed.retriesDeferred = false
                    try await offerDeferred(sync, feed)
                } else if feed.channels?.isStalled == true, !feed.isOver {
                    guard await wakes.next(isolation: self) != nil else { return }
                } else if !feed.reachedEnd, !feed.isOver {
                    if feed.channels == nil { try await scan(sync, feed) } else { try await scanChannels(sync, feed) }
                } else {
                    await caughtUp(sync, feed)
                    evaluate()
                    if feed.isFinished || hasEnded { return }
                    guard await wakes.next(isolation: self) != nil else { return }
                }
                pump()
            }
        } catch {
            fail(error)
        }
    }

    /// Everything read so far is on its way or done.
    private func caughtUp(_ sync: CollectionSync, _ feed: PushFeed) async {
        feed.isCaughtUp = true
        if feed.style == .changes, !feed.announcedCaughtUp {
            feed.announcedCaughtUp = true
            send(request(Profile.changes, sync, body: Array("[]".utf8), isUrgent: true, isNoReply: true))
        }
        guard feed.isDrained else { return }
        await flushMarks(sync)
        guard !feed.isContinuous, feed.isDrained, feed.reachedEnd || feed.isOver else { return }
        // A one-shot push waits for the pull: a conflict it brings may still be decided into something to push.
        if isPassive || pullsAreComplete { feed.isFinished = true }
    }

    var pullsAreComplete: Bool {
        collections.allSatisfy {
            (!$0.pull.isSubscribed || $0.pull.isCaughtUp && $0.pull.isDrained) && $0.conflicts.isEmpty && !$0.isDeciding
        }
    }

    // MARK: - Reading

    private struct Read: Sendable {
        var rows: [PushRow] = []
        var through: SequenceNumber
        var isEnd: Bool
    }

    private func scan(_ sync: CollectionSync, _ feed: PushFeed) async throws {
        let since = feed.cursor
        let collection = sync.collection
        let remote = feed.style == .propose ? sync.remote : nil
        let trusts = feed.trustsKnownRevisions
        let activeOnly = feed.activeOnly && !feed.announcedCaughtUp
        let skipsConflicts = !isPassive
        let ids = feed.documentIDs
        let limits = limits
        let historyLimit = sync.peerMaximumHistory
        let read = try await database.read { transaction -> Read in
            let changes = try transaction.changes(
                collection, since: since, limit: limits.rowsPerChangeList, includeBodies: true, ids: ids,
                remote: remote)
            let isEnd = changes.isEmpty
            var read = Read(through: since, isEnd: isEnd)
            if isEnd { read.through = try max(since, transaction.lastSequence(collection)) }
            for change in changes {
                read.through = change.sequence
                let known = trusts ? change.remoteRevision : nil
                if known == change.revision || (activeOnly && change.isDeleted) || (skipsConflicts && change.hasConflict) {
                    continue
                }
                read.rows.append(
                    PushRow(
                        sequence: change.sequence, id: change.id, revision: change.revision, isDeleted: change.isDeleted,
                        hasBlobs: change.hasBlobs, body: change.body ?? [],
                        history: try change.history(limit: historyLimit, downTo: known), peerRevision: known))
            }
            return read
        }
        if hasEnded { return }
        counters.update { $0.total += UInt64(read.rows.count) }
        // Begun before the cursor moves on, so that a checkpoint saved meanwhile does not pass them.
        for row in read.rows { feed.tracker.begin(row.sequence) }
        feed.cursor = max(feed.cursor, read.through)
        feed.tracker.scanned(through: read.through)
        // A change that was committed after the read has been told of meanwhile.
        feed.reachedEnd = read.isEnd && feed.newest <= feed.cursor
        try await offer(sync, feed, read.rows)
        progressed(sync)
    }

    // MARK: - Offering

    /// Filters rows and offers what passes. Documents whose earlier revision is under way wait for its answer.
    func offer(_ sync: CollectionSync, _ feed: PushFeed, _ candidates: [PushRow]) async throws {
        var rows: [PushRow] = []
        rows.reserveCapacity(candidates.count)
        for var row in candidates {
            if !feed.deferred.isEmpty, let older = feed.deferred[row.id], older < row.sequence {
                // The newer revision takes the place of the one that waited.
                feed.deferred[row.id] = nil
                feed.tracker.complete(older)
            }
            if row.news == .visible, sync.echoes[row.id] == row.revision {
                done(sync, feed, row)
                continue
            }
            if feed.inFlight.contains(row.id) {
                if let older = feed.waiting.updateValue(row, forKey: row.id) { done(sync, feed, older) }
                continue
            }
            if let acknowledged = feed.acknowledged[row.id] {
                if acknowledged == row.revision {
                    done(sync, feed, row)
                    continue
                }
                row.peerRevision = acknowledged
            }
            feed.inFlight.insert(row.id)
            rows.append(row)
        }
        if let filter = sync.pushFilter, !rows.isEmpty {
            // Nobody asks whether a document may go away.
            let goings = rows.filter { $0.news != .visible }
            rows = try await filtered(sync, feed, goings.isEmpty ? rows : rows.filter { $0.news == .visible }, filter) + goings
        }
        guard !rows.isEmpty, !hasEnded else { return }
        feed.listsInFlight += 1
        switch feed.style {
        case .propose: propose(sync, feed, rows)
        case .changes: announce(sync, feed, rows)
        }
    }

    private func filtered(
        _ sync: CollectionSync, _ feed: PushFeed, _ rows: [PushRow], _ filter: any DocumentFilter
    ) async throws -> [PushRow] {
        let version = filter.version
        let documents = rows.map { PolicyDocument(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body) }
        let verdicts = await filter.evaluate(documents, policyContext(sync, .push))
        var passed: [PushRow] = []
        passed.reserveCapacity(rows.count)
        var kept: [(PushRow, Exclusion)] = []
        for (index, row) in rows.enumerated() {
            switch index < verdicts.count ? verdicts[index] : filter.missingVerdict {
            case .pass: passed.append(row)
            case .reject:
                kept.append(
                    (row, exclusion(sync, row, .rejected, plugin: filter.pluginName, version: version, error: "")))
            case .failed(let failure):
                kept.append(
                    (row, exclusion(sync, row, .held, plugin: failure.plugin, version: failure.version, error: failure.message)))
                report(
                    DocumentEvent(
                        id: row.id, collection: sync.collection.name, direction: .push, isDeleted: row.isDeleted,
                        error: ReplicationError(domain: .plugin, code: 503, message: "\(failure.kind): \(failure.message)")))
            }
        }
        guard !kept.isEmpty else { return passed }
        if sync.remote != nil {
            // Durable before the sequence counts as done: what was kept back is found again when the filter changes.
            let exclusions = kept.map(\.1)
            feed.mayHaveExclusions = true
            for exclusion in exclusions { feed.unsavedInclusions.remove(exclusion.id) }
            let collection = sync.collection
            try await database.write { try $0.exclude(collection, exclusions) }
        }
        for (row, exclusion) in kept {
            counters.update { if exclusion.kind == .held { $0.held += 1 } else { $0.rejected += 1 } }
            done(sync, feed, row)
        }
        return passed
    }

    private func exclusion(
        _ sync: CollectionSync, _ row: PushRow, _ kind: Exclusion.Kind, plugin: String, version: String, error: String
    ) -> Exclusion {
        Exclusion(
            remote: sync.remote ?? RemoteID(0), direction: .push, kind: kind, id: row.id, sequence: row.sequence,
            revision: row.revision, error: error, plugin: plugin, version: version)
    }

    private func propose(_ sync: CollectionSync, _ feed: PushFeed, _ rows: [PushRow]) {
        var writer = RowWriter(capacity: rows.count * 128)
        for row in rows {
            writer.beginRow()
            writer.escaped(row.id.text)
            writer.plain(row.revision.text)
            writer.plain(row.peerRevision?.text ?? "")
            writer.number(row.body.count)
            writer.endRow()
        }
        var message = request(
            Profile.proposeChanges, sync, body: writer.finish(), isCompressed: true, isUrgent: true)
        message.properties.append(Property.conflictIncludesRev, "true")
        send(message, .proposals(sync, feed, rows))
    }

    private func announce(_ sync: CollectionSync, _ feed: PushFeed, _ rows: [PushRow]) {
        var writer = RowWriter(capacity: rows.count * 96)
        for row in rows {
            writer.beginRow()
            writer.raw(row.sequenceJSON)
            writer.escaped(row.id.text)
            writer.plain(row.revision.text)
            writer.number(row.flags)
            writer.number(row.body.count)
            writer.endRow()
        }
        send(
            request(Profile.changes, sync, body: writer.finish(), isCompressed: true, isUrgent: true),
            .changes(sync, feed, rows))
    }

    /// The row needs nothing more: done, or not for this peer.
    func done(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow) {
        feed.tracker.complete(row.sequence)
        counters.update { $0.completed += 1 }
        release(feed, row)
        progressed(sync)
    }

    /// The document is no longer under way; a newer revision that waited takes its turn.
    func release(_ feed: PushFeed, _ row: PushRow) {
        guard feed.inFlight.remove(row.id) != nil else { return }
        if let next = feed.waiting.removeValue(forKey: row.id) { feed.again.append(next) }
    }
}
