import Documents
import DocumentStore
import NIOCore

/// What was kept back is offered again: by the filter, when it changes, and by the peer, after a while.
extension ReplicationSession {
    /// Offers what another version of the filter kept back, or what it could not decide. A document stays on the list of
    /// exclusions until the peer has it, so that an end in between loses nothing.
    func reoffer(_ sync: CollectionSync, _ feed: PushFeed) async throws {
        guard let remote = sync.remote else { return }
        let collection = sync.collection
        let current = sync.pushFilter.map { ($0.pluginName, $0.version) }
        let historyLimit = sync.peerMaximumHistory
        var after: DocumentID?
        repeat {
            let start = after
            let (rows, settled, next, isAny) = try await database.read { transaction -> ([PushRow], [DocumentID], DocumentID?, Bool) in
                let page = try transaction.exclusions(collection, remote: remote, direction: .push, after: start, limit: 200)
                var rows: [PushRow] = []
                var settled: [DocumentID] = []
                for kept in page {
                    if kept.kind == .rejected, let current, kept.plugin == current.0, kept.version == current.1 { continue }
                    guard let document = try transaction.document(collection, kept.id) else {
                        settled.append(kept.id)
                        continue
                    }
                    let known = try transaction.remoteRevision(remote, collection, kept.id)
                    if known == document.revision {
                        settled.append(kept.id)
                        continue
                    }
                    let history = try transaction.tree(collection, kept.id)?
                        .history(of: document.revision, limit: historyLimit, until: known.map { [$0] } ?? [])
                    rows.append(
                        PushRow(
                            sequence: document.sequence, id: document.id, revision: document.revision,
                            isDeleted: document.isDeleted, hasBlobs: document.hasBlobs, body: document.body,
                            history: history ?? [], peerRevision: known))
                }
                return (rows, settled, page.count < 200 ? nil : page.last?.id, !page.isEmpty)
            }
            after = next
            if hasEnded { return }
            if isAny { feed.mayHaveExclusions = true }
            if !settled.isEmpty {
                try await database.write { try $0.unexclude(collection, remote: remote, direction: .push, ids: settled) }
            }
            // Rows beyond the cursor are about to be read anyway.
            let known = rows.filter { $0.sequence <= feed.cursor }
            guard !known.isEmpty, !hasEnded else { continue }
            for row in known { feed.tracker.begin(row.sequence) }
            counters.update { $0.total += UInt64(known.count) }
            try await offer(sync, feed, known)
        } while after != nil && !hasEnded
    }

    /// The peer could not take the document for the moment. Its sequence stays open, so that at the latest the next run
    /// offers it again; a continuous push does so by itself after a while.
    func deferRow(_ sync: CollectionSync, _ feed: PushFeed, _ row: PushRow) {
        counters.update {
            $0.failed += 1
            $0.completed += 1
        }
        feed.deferred[row.id] = row.sequence
        release(feed, row)
        guard feed.isContinuous, !feed.deferralIsScheduled else { return }
        feed.deferralIsScheduled = true
        feed.deferralSeconds = feed.deferralSeconds == 0
            ? limits.deferralSeconds : min(feed.deferralSeconds * 2, limits.maximumDeferralSeconds)
        let slot = sync.slot
        context.schedule(afterSeconds: feed.deferralSeconds) { [weak self] in
            self?.assumeIsolated { $0.takeUpDeferred(slot) }
        }
    }

    private func takeUpDeferred(_ slot: Int) {
        guard !hasEnded, slot < collections.count, let feed = collections[slot].push else { return }
        feed.deferralIsScheduled = false
        feed.retriesDeferred = true
        feed.isCaughtUp = false
        feed.wake()
        evaluate()
    }

    func offerDeferred(_ sync: CollectionSync, _ feed: PushFeed) async throws {
        let waiting = feed.deferred
        feed.deferred = [:]
        let collection = sync.collection
        let remote = sync.remote
        let historyLimit = sync.peerMaximumHistory
        let ids = waiting.keys.sorted()
        // Few at a time: each may be as large as documents get.
        for start in stride(from: 0, to: ids.count, by: 10) {
            let asked = Array(ids[start..<min(start + 10, ids.count)])
            let rows = try await database.read { transaction in
                try asked.flatMap { id in
                    try transaction.changes(collection, since: 0, limit: 1, includeBodies: true, ids: [id], remote: remote)
                }.map { change in
                    PushRow(
                        sequence: change.sequence, id: change.id, revision: change.revision, isDeleted: change.isDeleted,
                        hasBlobs: change.hasBlobs, body: change.body ?? [],
                        history: try change.history(limit: historyLimit, downTo: change.remoteRevision),
                        peerRevision: change.remoteRevision)
                }
            }
            if hasEnded { return }
            // What changed meanwhile is read in its turn.
            let offered = rows.filter { waiting[$0.id] == $0.sequence }
            let same = Set(offered.map(\.id))
            for id in asked where !same.contains(id) {
                if let sequence = waiting[id] { feed.tracker.complete(sequence) }
            }
            counters.update { $0.total += UInt64(offered.count) }
            if !offered.isEmpty { try await offer(sync, feed, offered) }
        }
    }
}
