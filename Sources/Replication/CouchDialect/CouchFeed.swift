import Documents
import DocumentStore
import Encodings
import Interfaces
import NIOCore

/// Rows that the store is processing.
struct CouchFeedPage: Sendable {
    var rows: [RowResult<OfferedRow>]
    var since: String
    /// Memory of the rows, in bytes.
    var bytes: Int
}

/// Pull: turns `_changes` into change lists.
extension CouchDialect {
    func subscribe(_ slot: Int, _ subscription: PullSubscription) {
        run { try await $0.follow(subscription) }
    }

    /// Reads the feed to its end, and waits there for more.
    private func follow(_ subscription: PullSubscription) async throws {
        var since = subscription.since?.feedText ?? "0"
        var (isCaughtUp, rows, repetitions, wantedBefore) = (false, CouchBounds.rows, 0, 0)
        while !isOver {
            let (page, asked) = try await page(subscription, since: since, waits: isCaughtUp, rows)
            await offer(page, since: since)
            repetitions = page.last == since && page.count > 0 ? repetitions + 1 : 0
            if repetitions > 0 {
                // The same rows again, for ever: no real peer's feed ends where it begins.
                let seconds = CouchBounds.idlePauseSeconds << min(repetitions, 6)
                try await environment.time.sleep(seconds: min(seconds, CouchBounds.longestPauseSeconds))
            }
            since = page.last
            // Nor are positions that lead nowhere, such as one document again and again: a real peer's answers are full while there is more to read.
            let wanted = state.withLock { $0.wantedCount }
            if page.count < asked, wanted == wantedBefore, isCaughtUp || page.pending ?? 0 > 0 {
                try await environment.time.sleep(nanoseconds: CouchBounds.shortPauseNanoseconds)
            }
            wantedBefore = wanted
            // A peer that ignores long polling must not be polled without a pause.
            if isCaughtUp, page.entries.isEmpty { try await environment.time.sleep(seconds: 1) }
            let isEnd = page.count == 0 || page.pending.map { $0 == 0 } ?? (page.count < asked)
            rows = max(1, min(asked * 2, CouchBounds.rows, fittingRows(page)))
            if isEnd, !isCaughtUp {
                isCaughtUp = true
                tell([.pull(slot: 0, .listArrived(IncomingList(handle: nil, content: .rows(.offered([])))))])
                if !subscription.isContinuous { return }
            }
        }
    }

    /// The next page of the feed, and the number of rows requested: fewer than allowed if the documents have so many leaves that the answer would be
    /// too large. A document that is too large on its own fails alone.
    private func page(
        _ subscription: PullSubscription, since: String, waits: Bool, _ rows: Int
    ) async throws -> (page: FeedAnswer, rows: Int) {
        var rows = rows
        var suspect: FeedAnswer?
        while true {
            let request = changes(subscription, since: since, waits: waits, rows)
            do {
                var answer = try await ask(request)
                if !exceedsBounds(&answer, isOne: rows == 1) {
                    let page = try await page(answer, to: request, since: since)
                    if rows == 1 || page.bytes <= 2 * feedMemory.share { return (page, rows) }
                    rows = max(1, min(rows / 2, fittingRows(page)))
                    continue
                }
            } catch let error as ReplicationError where error.isShortOfMemory && rows > 1 {}
            if rows > 1 {
                rows = max(1, rows / 4)
                continue
            }
            let short = changes(subscription, since: since, waits: waits, rows, style: "main_only")
            let winner = try await page(try await ask(short), to: short, since: since)
            // Asked twice: otherwise the oversized row may have belonged to a document that has changed in the meantime.
            if let suspect, winner.isSame(as: suspect) { return (winner.refusing(), rows) }
            if suspect != nil { try await environment.time.sleep(seconds: CouchBounds.idlePauseSeconds) }
            suspect = winner
        }
    }

    /// How many rows like these fit into the memory for a feed.
    private func fittingRows(_ page: FeedAnswer) -> Int {
        guard let first = page.entries.first else { return .max }
        let bytesPerRow = max(first.bytes, page.bytes / page.entries.count)
        return feedMemory.share / bytesPerRow
    }

    private func changes(
        _ subscription: PullSubscription, since: String, waits: Bool, _ rows: Int, style: String = "all_docs"
    ) -> PeerRequest {
        var path = "/_changes?style=\(style)&since=\(PercentEncoding.encode(since))&limit=\(rows)"
        if waits { path += "&feed=longpoll&heartbeat=\(CouchBounds.heartbeatMilliseconds)" }
        var body: JSONValue?
        if let ids = subscription.documentIDs {
            path += "&filter=_doc_ids"
            body = .some(["doc_ids": .array(ids.map { .string($0.text) })])
        } else if let channels = subscription.channels {
            path += "&filter=sync_gateway%2Fbychannel&channels=\(channels.map(PercentEncoding.encode).joined(separator: ","))"
        } else {
            switch subscription.sourceFilter {
            case .selector(let selector):
                path += "&filter=_selector"
                body = .some(["selector": selector])
            case .named(let name, let parameters): path += "&" + SourceFilter.query(name, parameters)
            case nil: break
            }
        }
        var request = PeerRequest(body == nil ? "GET" : "POST", path, json: body, atMost: answerBytes(isOne: rows == 1))
        request.patience = CouchBounds.heartbeatMilliseconds * 3
        request.hasHeartbeat = waits
        return request
    }

    func page(_ answer: PeerAnswer, to request: PeerRequest, since: String) async throws -> FeedAnswer {
        // The path may contain parameters that are secrets.
        let what = "\(request.method) _changes"
        guard answer.isGood else { throw ReplicationError(answer, to: what) }
        return try await reading(answer, what) { try FeedAnswer($0, since: since, limits: limits).refusing(above: memory.limit / 16) }
    }

    /// Passes a page to the engine, one list of rows at a time, with the rows of one document together. Waiting rows count as held memory.
    private func offer(_ page: FeedAnswer, since: String) async {
        let bytes = page.bytes
        state.withLock { $0.entryBytes += bytes }
        tell([])
        defer { state.withLock { $0.entryBytes -= bytes } }
        let share = feedMemory.share
        var list = CouchFeedPage(rows: [], since: since, bytes: 0)
        for entry in page.entries {
            if !list.rows.isEmpty, list.rows.count + entry.leaves.count > CouchBounds.rows || list.bytes + entry.rowBytes > share / CouchBounds.lists {
                await offer(list)
                (list.rows, list.bytes) = ([], 0)
            }
            list.rows += entry.rows
            list.bytes += entry.rowBytes
        }
        if !list.rows.isEmpty { await offer(list) }
    }

    /// Passes rows to the engine; returns when it has room for more.
    private func offer(_ page: CouchFeedPage) async {
        let (rows, share) = (page.rows, feedMemory.share)
        let number = state.withLock { state in
            state.lastList += 1
            state.lists[state.lastList] = page
            state.listBytes += page.bytes
            var before: DocumentID?
            for case .row(let row) in rows where state.branches[row.id] != nil || row.sequence.isOfBranch && state.canRememberMore(share) {
                // Removed from the table, so that it is not copied for each leaf.
                var known = state.branches.removeValue(forKey: row.id) ?? Branches()
                if row.id != before { known.row = [] }
                before = row.id
                known.row.insert(row.revision)
                if known.leaves[row.revision] == nil {
                    known.leaves[row.revision] = .announced
                    state.leaves += 1
                }
                state.branches[row.id] = known
            }
            return state.lastList
        }
        tell([.pull(slot: 0, .listArrived(IncomingList(handle: AnswerHandle(number: number), content: .rows(.offered(rows)))))])
        while state.withLock({ Self.isFull($0, share) }) {
            await withCheckedContinuation { continuation in
                let goesOn = state.withLock { state in
                    guard Self.isFull(state, share) else { return true }
                    state.feedWaits = continuation
                    return false
                }
                if goesOn { continuation.resume() }
            }
        }
    }

    /// Whether no more rows may be passed to the engine now.
    private static func isFull(_ state: State, _ share: Int) -> Bool {
        !state.isOver && !state.lists.isEmpty && (state.lists.count >= CouchBounds.lists || state.listBytes >= share)
    }

    func answer(_ handle: AnswerHandle?, changes answers: [ChangeAnswer]) {
        guard let handle else { return }
        // Documents with leaves that are here, and those of them whose leaves are new to us.
        var (known, new): (Set<DocumentID>, Set<DocumentID>) = ([], [])
        let waits = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let page = state.lists.removeValue(forKey: handle.number) else { return nil }
            state.listBytes -= page.bytes
            for case (.row(let row), let answer) in zip(page.rows, answers) {
                if case .wanted(let ancestors) = answer {
                    state.wanted.append(WantedRevision(row: row, ancestors: ancestors, since: page.since))
                    state.wantedCount += 1
                } else if case .notWanted = answer, let standing = state.branches[row.id]?.leaves[row.revision] {
                    known.insert(row.id)
                    guard standing == .announced else { continue }
                    state.branches[row.id]?.leaves[row.revision] = .here
                    new.insert(row.id)
                }
            }
            defer { state.feedWaits = nil }
            return state.feedWaits
        }
        waits?.resume()
        // What was dropped here before the peer was known to have it, and what others decided differently.
        endLosers(of: new)
        endLosers(of: known.subtracting(new), isReview: true)
    }

    /// A list that cannot be processed: the engine ends the connection.
    func refuse(_ handle: AnswerHandle?, _ error: MessageError) { answer(handle, changes: []) }
}
