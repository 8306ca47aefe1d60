import BLIP
import Documents
import DocumentStore
import NIOCore

/// Serving a peer that is bound to channels: what it may pull, what it is told when that ends.
extension ReplicationSession {
    /// Whose channels bound this session; nil: the peer may pull everything. A principal with channels is bound to them also where
    /// the listener assigns none itself.
    var channelPeer: ChannelPeer? {
        guard case .passive(let passive) = role, passive.syncFunction != nil || passive.principal.channels != nil else { return nil }
        return ChannelPeer(user: passive.principal.name, listener: passive.listener)
    }

    /// The channels of `filter: sync_gateway/bychannel`.
    func selectedChannels(_ filter: String, _ names: String?) throws(MessageError) -> [String] {
        guard channelPeer != nil, filter == "sync_gateway/bychannel" else {
            throw MessageError(domain: "LiteCore", code: 19, message: "Filtering not supported (\(filter.prefix(60)))")
        }
        let channels = (names ?? "").split(separator: ",").map { $0.drop { $0 == " " } }.filter { !$0.isEmpty }.map(String.init)
        guard !channels.isEmpty else { throw .bad("the filter sync_gateway/bychannel needs the property channels, names with commas between") }
        guard channels.count <= limits.maximumChannels else {
            throw MessageError(code: 413, message: "subChanges names \(channels.count) channels, max_channels is \(limits.maximumChannels)")
        }
        return channels
    }

    func startChannels(
        _ sync: CollectionSync, _ feed: PushFeed, _ peer: ChannelPeer, channels: [String]?, wantsFuture: Bool, _ request: IncomingRequest
    ) {
        guard case .passive(let passive) = role else { return }
        let properties = request.properties
        let place = ChannelPlace(parsing: properties[Property.since] ?? "")
        let question = ChannelQuestion(
            peer: peer, channels: channels, ids: feed.documentIDs.map(Set.init), waitsForRoutes: passive.syncFunction != nil)
        feed.channels = ChannelFeed(question: question, place: place, wantsRevocations: isTrue(properties[Property.revocations]))
        feed.start(from: place.sequence)
        let collection = sync.collection
        work {
            do {
                try await self.setAccess(sync, peer)
                if wantsFuture {
                    let last = try await self.database.read { try $0.lastSequence(collection) }
                    feed.channels?.place = ChannelPlace(last)
                    feed.start(from: last)
                }
            } catch {
                self.storeFailed(request.number, error)
                feed.isFinished = true
                return
            }
            guard !self.hasEnded, !feed.isFinished else { return }
            self.reply(to: request.number)
            self.startPush(sync, feed)
        }
    }

    /// Notes what the authenticator said, once a session: what it said on an earlier visit and says no longer ends here.
    func setAccess(_ sync: CollectionSync, _ peer: ChannelPeer) async throws {
        guard case .passive(let passive) = role, !sync.hasSetAccess else { return }
        let (collection, principal) = (sync.collection, passive.principal)
        try await database.write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        }
        sync.hasSetAccess = true
    }

    /// Reads the next part of the feed of the peer's channels and offers it.
    func scanChannels(_ sync: CollectionSync, _ feed: PushFeed) async throws {
        guard let channels = feed.channels, case .passive(let passive) = role else { return }
        var question = channels.question
        question.activeOnly = feed.activeOnly && !feed.announcedCaughtUp
        let collection = sync.collection
        let (limit, historyLimit) = (limits.rowsPerChangeList, sync.peerMaximumHistory)
        let (page, rows) = try await database.read { [question] transaction -> (ChannelPage, [PushRow]) in
            let page = try transaction.channelChanges(collection, from: channels.place, question, limit: limit)
            let rows = try page.rows.map { row in
                PushRow(
                    sequence: row.sequence, id: row.change.id, revision: row.change.revision, isDeleted: row.change.isDeleted,
                    hasBlobs: row.change.hasBlobs, body: row.change.body ?? [], history: try row.change.history(limit: historyLimit),
                    news: row.news, event: row.event)
            }
            return (page, rows)
        }
        if hasEnded { return }
        let told = rows.compactMap { row -> PushRow? in
            switch (row.news, passive.subprotocol) {
            case (.visible, _): return row
            case (_, .generation3): return channels.wantsRevocations ? row : nil
            case (.removed, .generation2):
                // An ordinary row, whose revision then says that the document went.
                var row = row
                row.goesByBody = true
                return row
            case (.revoked, .generation2): return nil
            }
        }
        counters.update { $0.total += UInt64(told.count) }
        for row in told { feed.tracker.begin(row.sequence) }
        feed.channels?.place = page.place
        feed.cursor = max(feed.cursor, page.place.sequence)
        // A change that was committed after the read has been told of meanwhile.
        let isCurrent = feed.newest <= page.newest
        feed.channels?.isStalled = page.isBlocked && isCurrent
        feed.reachedEnd = page.isEnd && isCurrent
        try await offer(sync, feed, told)
        progressed(sync)
    }

    // MARK: - Blobs

    /// A peer that is bound to channels may have the blobs of the revisions that are on their way to it, as with Sync Gateway.
    func checkLent(_ digest: BlobDigest) throws(MessageError) {
        guard channelPeer != nil, lentBlobs[digest] == nil else { return }
        throw MessageError(code: 403, message: "Attachment's doc not being synced")
    }

    func lendBlobs(of row: PushRow) {
        guard channelPeer != nil else { return }
        for digest in Self.blobs(of: row) { lentBlobs[digest, default: 0] += 1 }
    }

    func takeBackBlobs(of row: PushRow) {
        guard channelPeer != nil else { return }
        for digest in Self.blobs(of: row) {
            guard let count = lentBlobs[digest] else { continue }
            lentBlobs[digest] = count > 1 ? count - 1 : nil
        }
    }

    private static func blobs(of row: PushRow) -> Set<BlobDigest> {
        Set((try? BlobReferences.find(in: row.body))?.map(\.digest) ?? [])
    }
}
