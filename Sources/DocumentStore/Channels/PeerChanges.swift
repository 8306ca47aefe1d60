import Documents

/// A peer's request for documents of its channels.
public struct ChannelQuestion: Sendable {
    public var peer: ChannelPeer
    /// The channels it asks for; nil: all that it has access to.
    public var channels: [String]?
    /// Only these documents.
    public var ids: Set<DocumentID>?
    /// Skip tombstones and removals up to this sequence: the peer had nothing when its pull began here. It may have been sent documents that were deleted or
    /// removed later.
    public var activeOnlyThrough: SequenceNumber
    /// Whether documents without an assignment block the feed; otherwise they count as being in no channel.
    public var waitsForRoutes: Bool

    public init(
        peer: ChannelPeer, channels: [String]? = nil, ids: Set<DocumentID>? = nil, activeOnlyThrough: SequenceNumber = 0, waitsForRoutes: Bool = true
    ) {
        self.peer = peer
        self.channels = channels
        self.ids = ids
        self.activeOnlyThrough = activeOnlyThrough
        self.waitsForRoutes = waitsForRoutes
    }
}

/// The maximum size of a page of a peer's feed, and its cost so far.
struct PageBounds {
    let limit: Int
    let maxBytes: Int
    var scanned = 0
    var bytes = 0

    func hasRoom(_ rows: Int) -> Bool { rows < limit && bytes < maxBytes }
}

extension ReadTransaction {
    /// The next page of a peer's feed of its channels.
    ///
    /// - Parameters:
    ///   - limit: number of rows wanted; fewer are returned if many documents are skipped, so an empty page is the end only if it says so.
    ///   - maxBytes: limit for bodies and stored trees; the row that exceeds it is the last one.
    public final func channelChanges(
        _ collection: Collection, from place: ChannelPlace, _ question: ChannelQuestion, limit: Int,
        maxBytes: Int = StoreLimits.maxBodyBytesPerRead
    ) throws(StoreError) -> ChannelPage {
        let access = AccessEvents(try channelAccess(collection, of: question.peer).selected(question.channels))
        var page = ChannelPage(place: place, newest: try lastSequence(collection))
        var bounds = PageBounds(limit: limit, maxBytes: maxBytes)
        while bounds.hasRoom(page.rows.count), bounds.scanned < StoreLimits.maxRowsPerRead, !page.isEnd, !page.isBlocked {
            // Skips the event that is finished or in progress, and older ones.
            let after = max(page.place.sequence, page.place.event ?? 0)
            let next = page.place.inEvent != nil ? page.place.event : access.nextEvent(after: after)
            if page.place.inEvent != nil, let event = page.place.event {
                try readEvent(event, collection, access, question, &bounds, &page)
            } else {
                try readFeed(before: next, collection, access, question, &bounds, &page)
            }
        }
        return page
    }

    /// A document's current state, with its body; nil if the peer may not see it, or does not ask for it.
    public final func visibleChange(
        _ collection: Collection, _ id: DocumentID, _ question: ChannelQuestion
    ) throws(StoreError) -> ChangeRow? {
        guard question.wants(id), let change = try changes(collection, since: 0, limit: 1, includeBodies: false, ids: [id]).first else {
            return nil
        }
        let access = try channelAccess(collection, of: question.peer).selected(question.channels)
        if !access.hasEverything {
            guard try routedRevision(collection, id) == change.revision, access.isVisible(try channels(of: id, collection)) else { return nil }
        }
        var bounds = PageBounds(limit: 1, maxBytes: .max)
        return try complete(change, collection, .visible, &bounds)
    }

    /// Documents in order of sequence and, between them, those that left a channel, up to the next event.
    private func readFeed(
        before event: SequenceNumber?, _ collection: Collection, _ access: AccessEvents, _ question: ChannelQuestion,
        _ bounds: inout PageBounds, _ page: inout ChannelPage
    ) throws(StoreError) {
        let since = page.place.sequence
        let changes = try changes(collection, since: since, limit: 200, includeBodies: false)
        bounds.scanned += changes.count
        var rows: [ChannelPage.Row] = []
        var reached = since
        for change in changes {
            if let event, change.sequence >= event { break }
            if !bounds.hasRoom(page.rows.count + rows.count) { break }
            let routes: [ChannelRow]?
            if access.hasEverything {
                routes = nil
            } else if try routedRevision(collection, change.id) == change.revision {
                routes = try channels(of: change.id, collection)
            } else if question.waitsForRoutes {
                page.isBlocked = true
                break
            } else {
                routes = []
            }
            reached = change.sequence
            guard question.wants(change.id), routes.map(access.isVisible) ?? true, !(change.isDeleted && change.sequence <= question.activeOnlyThrough)
            else { continue }
            rows.append(ChannelPage.Row(
                change: try complete(change, collection, .visible, &bounds), sequence: change.sequence, visibility: .visible))
        }
        let isStopped = page.isBlocked || !bounds.hasRoom(page.rows.count + rows.count)
        let isExhausted = !isStopped && (changes.isEmpty || event != nil && changes[changes.count - 1].sequence >= event ?? 0)
        if isExhausted { reached = max(since, event.map { $0 - 1 } ?? page.newest) }
        if reached > question.activeOnlyThrough, !access.hasEverything {
            reached = try readDepartures(collection, max(since, question.activeOnlyThrough), through: reached, access, question, &bounds, &rows)
            let isCut = rows.contains { $0.sequence > reached }
            if isCut {
                rows.removeAll { $0.sequence > reached }
                page.isBlocked = false
                page.rows += rows
                page.place = page.place.moved(to: reached)
                return
            }
        }
        page.rows += rows
        page.place = page.place.moved(to: reached)
        guard isExhausted, reached == (event.map { $0 - 1 } ?? page.newest) || event == nil && reached >= page.newest else { return }
        if let event {
            page.place.event = event
            // Only documents that disappear: an empty database has none of them.
            page.place.inEvent = event <= question.activeOnlyThrough && !access.grants(at: event) ? nil : 0
        } else {
            page.isEnd = true
        }
    }

    /// Adds the documents that left one of the peer's channels at sequences up to `through`, at their positions.
    /// - Returns: how far it got.
    private func readDepartures(
        _ collection: Collection, _ since: SequenceNumber, through: SequenceNumber, _ access: AccessEvents, _ question: ChannelQuestion,
        _ bounds: inout PageBounds, _ rows: inout [ChannelPage.Row]
    ) throws(StoreError) -> SequenceNumber {
        let statement = try active().cached("""
            SELECT left, id, channel FROM channels INDEXED BY channels_left \
            WHERE collection = ?1 AND left > ?2 AND left <= ?3 ORDER BY left LIMIT ?4
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, Int64(clamping: since))
        statement.bind(3, Int64(clamping: through))
        statement.bind(4, Int64(StoreLimits.departuresPerRead))
        var gone: [(SequenceNumber, DocumentID)] = []
        var count = 0
        var last: SequenceNumber = 0
        do {
            defer { statement.reset() }
            while try session.step(statement) {
                count += 1
                last = SequenceNumber(clamping: statement.integer(0))
                let channel = statement.text(2)
                if access.held(channel, at: last) { gone.append((last, DocumentID(stored: statement.text(1)))) }
            }
        }
        var reached = through
        if count == StoreLimits.departuresPerRead {
            // The last sequence may be incomplete; it is read again.
            reached = last > since + 1 ? last - 1 : last
        }
        for (sequence, id) in gone where sequence <= reached && question.wants(id) {
            guard let change = try changes(collection, since: 0, limit: 1, includeBodies: false, ids: [id]).first else { continue }
            let routes = try channels(of: id, collection)
            if try routedRevision(collection, id) == change.revision, access.isVisible(routes) { continue }
            // Reported once, where it left the last of the peer's channels.
            guard let departure = access.departure(routes), departure.sequence == sequence else { continue }
            // A deletion says more than a removal. But the body of a tombstone that is in none of the peer's channels is withheld.
            let visibility: ChannelVisibility = change.isDeleted ? .visible : .removed
            let row = ChannelPage.Row(
                change: try complete(change, collection, visibility, isHidden: true, &bounds), sequence: sequence, visibility: visibility,
                isFirsthand: departure.wasHeld && change.sequence == sequence)
            if rows.contains(where: { $0.sequence == sequence && $0.change.id == id }) { continue }
            rows.insert(row, at: rows.firstIndex { $0.sequence >= sequence } ?? rows.endIndex)
            // Stored trees count too.
            if bounds.bytes >= 2 * bounds.maxBytes { return min(reached, sequence) }
        }
        return reached
    }

    /// Adds the body, if the peer may see it.
    final func complete(
        _ change: ChangeRow, _ collection: Collection, _ visibility: ChannelVisibility, isHidden: Bool = false, _ bounds: inout PageBounds
    ) throws(StoreError) -> ChangeRow {
        var change = change
        if visibility != .visible {
            change.body = Array(#"{"_removed":true}"#.utf8)
            change.hasBlobs = false
        } else if isHidden {
            change.body = Array("{}".utf8)
            change.hasBlobs = false
        } else {
            let statement = try tables(collection).statement(.bodyAtSequence)
            statement.bind(1, Int64(clamping: change.sequence))
            defer { statement.reset() }
            change.body = try session.step(statement) ? statement.blob(0) : []
        }
        bounds.bytes += change.heldBytes
        return change
    }
}

extension ChannelQuestion {
    func wants(_ id: DocumentID) -> Bool { ids?.contains(id) ?? true }
}

extension ChannelPlace {
    /// A finished event is dropped when its sequence is passed.
    fileprivate func moved(to sequence: SequenceNumber) -> ChannelPlace {
        var place = self
        place.sequence = sequence
        if let event, event <= sequence { place.event = nil }
        return place
    }
}

extension ChannelAccess {
    /// Whether the peer may pull all documents.
    public var hasEverything: Bool { entries.contains { $0.channel == "*" && $0.revoked == nil } }

    func isVisible(_ rows: [ReadTransaction.ChannelRow]) -> Bool {
        entries.contains { entry in
            entry.revoked == nil && (entry.channel == "*" || rows.contains { $0.left == nil && $0.channel.utf8.elementsEqual(entry.channel.utf8) })
        }
    }
}
