import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// What the listening side does for a peer apart from push and pull: collections, subscriptions, and the peer's checkpoints, which are stored as
/// opaque bytes.
struct PassiveService {
    let session: SessionDriver

    // MARK: - Collections

    /// A peer that starts without naming collections means the default one.
    func openDefaultCollection() {
        guard let collection = session.database.collection(.default), mayUse(.default) else { return }
        session.dialect.serve(1, byName: false)
        session.links = [passiveLink(0, collection)]
    }

    func openCollections(_ wanted: CollectionsRequest, _ handle: AnswerHandle?) {
        let found = wanted.items.map { item in item.name.flatMap { mayUse($0) ? session.database.collection($0) : nil } }
        // A single unknown collection makes the peer stop; nothing of the others is served until then.
        if !found.contains(where: { $0 == nil }) {
            session.dialect.serve(found.count, byName: true)
            session.links = found.enumerated().compactMap { index, collection in collection.map { passiveLink(index, $0) } }
        }
        session.questions.take(.collections(handle, ids: wanted.items.map(\.checkpointID), found: found.map { $0 != nil }), handle)
    }

    private func passiveLink(_ slot: Int, _ collection: Collection) -> CollectionLink {
        guard case .passive(let all) = session.role else {
            preconditionFailure("only a passive session serves collections")
        }
        let passive = all.of(collection.name)
        let hasResolver = passive.resolver != nil
        var settings = PullSettings(
            collection: collection.name, role: .passive(refusesPush: session.pushRefusalReason != nil), hasFilter: passive.pullFilter != nil,
            hasSyncFunction: passive.syncFunction != nil, hasResolver: hasResolver, keepsLists: false, documentIDs: nil, limits: session.limits)
        settings.largestBody = session.database.maxBodyBytes
        let link = CollectionLink(
            slot: slot, collection: collection, pull: PullMachine(settings),
            source: FeedSource(collection: collection, skipsConflicts: false, naming: session.naming))
        link.pushFilter = passive.pushFilter
        link.pullFilter = passive.pullFilter
        link.syncFunction = passive.syncFunction
        if let resolver = passive.resolver {
            link.resolver = ConflictDecider(
                database: session.database, collection: collection, resolver: resolver, shadow: passive.shadow,
                context: session.policyContext(collection.name, .pull), scope: .remote(.pusher), attempts: session.limits.resolveAttempts,
                observer: passive.conflictObserver)
        }
        return link
    }

    private func mayUse(_ name: CollectionName) -> Bool {
        guard case .passive(let passive) = session.role else { return true }
        return passive.mayUse(name)
    }

    // MARK: - Requests

    func handle(_ request: PassiveRequest, _ slot: Int, _ handle: AnswerHandle?) {
        switch request {
        case .checkpoint(let id): session.questions.take(.checkpoint(handle, id: id), handle)
        case .setCheckpoint(let id, let body, let expected):
            session.questions.take(.setCheckpoint(handle, id: id, body: body, expectedRevision: expected), handle)
        case .subscribe(let subscription):
            do throws(MessageError) { try subscribe(session.links[slot], subscription, handle) } catch { session.dialect.refuse(handle, error) }
        case .unsubscribe:
            endPush(session.links[slot])
            session.touch(session.links[slot])
            session.dialect.acknowledge(handle)
        }
    }

    // MARK: - Subscriptions

    private func subscribe(_ link: CollectionLink, _ subscription: PeerSubscription, _ handle: AnswerHandle?) throws(MessageError) {
        guard case .passive(let passive) = session.role else { return }
        var channels: [String]?
        if let filter = subscription.filter { channels = try selectedChannels(filter, subscription.channels) }
        // A one-shot subscription may be followed by another, as Couchbase Lite does.
        if let running = link.push, running.settings.isContinuous {
            throw .conflict("this collection has a subscription already")
        }
        guard session.dialect.awaitedReplies < session.limits.revisionsInFlight else {
            throw .notNow(
                "not answered: \(Plural.count(session.dialect.awaitedReplies, "revision")) of earlier subscriptions; revs_in_flight is \(session.limits.revisionsInFlight)")
        }
        let subscribed = subscription.documentIDs.map(HeldBytes.ids) ?? 0
        // Unlike data in flight, it stays for as long as the peer is connected.
        guard subscribed == 0 || session.memory.hasRoom(for: subscribed) else {
            throw .notNow("no memory for \(subscription.documentIDs?.count ?? 0) docIDs within limits.memory (\(session.memory.limit)); come back later")
        }
        endPush(link)
        link.subscribedBytes = subscribed
        session.accounts.subscribedBytes += subscribed
        link.generation += 1
        var source = FeedSource(
            collection: link.collection, skipsConflicts: false, activeOnly: subscription.activeOnly, documentIDs: subscription.documentIDs,
            naming: session.naming)
        // A filter may still reject it, or make it smaller.
        source.largestBody = session.limits.largestGivenBody.map { link.pushFilter == nil ? $0 : 2 * $0 }
        let place = ChannelPlace(parsing: subscription.since)
        var position = FeedPosition(place.sequence)
        let peer = session.channelPeer
        source.reportsTombstones = peer == nil && link.pushFilter == nil
        if let peer {
            position = FeedPosition(place.sequence, channels: place)
            source.channels = ChannelQuestion(
                peer: peer, channels: channels, ids: subscription.documentIDs.map(Set.init), waitsForRoutes: passive.syncFunction != nil)
            source.tells = Self.announcedChanges(session.role.subprotocol(session.transport), wantsRevocations: subscription.wantsRevocations)
        }
        link.source = source
        session.tell(link, pull: .peerPulls)
        let (slot, generation, collection) = (link.slot, link.generation, link.collection)
        let (start, isContinuous) = (position, subscription.isContinuous)
        let begin: @Sendable (SessionDriver, FeedPosition) -> Void = { session, position in
            session.pendingSetUp -= 1
            guard session.links[slot].generation == generation else { return }
            session.dialect.acknowledge(handle)
            session.opener.startPush(session.links[slot], .announce, from: position, isContinuous: isContinuous)
        }
        let failed: @Sendable (SessionDriver, any Error) -> Void = { session, error in
            session.pendingSetUp -= 1
            session.log(error)
            session.dialect.refuse(handle, .busy)
        }
        session.pendingSetUp += 1
        let wantsFuture = subscription.wantsFuture
        let findStart: @Sendable (SessionDriver) -> Void = { session in
            guard wantsFuture else { return begin(session, start) }
            session.read { try $0.lastSequence(collection) } then: { session, last in
                begin(session, FeedPosition(last, channels: start.channels == nil ? nil : ChannelPlace(last)))
            } failed: { failed($0, $1) }
        }
        noteAccess(link, then: findStart, failed: failed)
    }

    private func endPush(_ link: CollectionLink) {
        link.endPush()
        session.outgoing.remove(slot: link.slot)
        session.accounts.subscribedBytes -= link.subscribedBytes
        link.subscribedBytes = 0
        link.source.documentIDs = Optional.none
        link.source.channels?.ids = Optional.none
        session.blobs.files.inFlight.remove(slot: link.slot)
    }

    /// Records the channels that the authenticator reported for the peer, once per collection, before anything is asked about them.
    private func noteAccess(
        _ link: CollectionLink, then: @escaping @Sendable (SessionDriver) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        guard case .passive(let passive) = session.role, let peer = session.channelPeer, !link.hasSetAccess else { return then(session) }
        let (slot, collection, principal) = (link.slot, link.collection, passive.principal)
        session.write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        } then: { session, _ in
            session.links[slot].hasSetAccess = true
            then(session)
        } failed: { failed($0, $1) }
    }

    /// What the peer may see of a collection.
    func view(
        _ link: CollectionLink, then: @escaping @Sendable (SessionDriver, PeerView) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        let view = PeerView(
            database: session.database, collection: link.collection, peer: session.channelPeer, filter: link.pushFilter,
            context: session.policyContext(link.collection.name, .push), naming: session.naming)
        noteAccess(link) { then($0, view) } failed: { failed($0, $1) }
    }

    /// The channels of `filter: sync_gateway/bychannel`.
    private func selectedChannels(_ filter: String, _ names: String?) throws(MessageError) -> [String] {
        guard session.channelPeer != nil, filter == ChannelSelection.filter else {
            throw .unknownFilter(filter)
        }
        let channels = ChannelSelection.names(names ?? "")
        guard !channels.isEmpty else { throw .bad("the filter \(ChannelSelection.filter) needs the property channels, names with commas between") }
        guard channels.count <= session.limits.maximumChannels else {
            throw .tooLarge("subChanges names \(channels.count) channels, max_channels is \(session.limits.maximumChannels)")
        }
        return channels
    }

    /// How a peer of this protocol generation is notified of documents that it may no longer have.
    private static func announcedChanges(
        _ subprotocol: Subprotocol, wantsRevocations: Bool
    ) -> @Sendable (OutgoingDocument) -> OutgoingDocument? {
        { document in
            switch (document.visibility, subprotocol) {
            case (.visible, _): return document
            case (_, .generation3), (_, .generation4): return wantsRevocations ? document : nil
            case (.removed, .generation2):
                // An ordinary row, whose revision then says that the document is gone.
                var document = document
                document.goesByBody = true
                return document
            case (.revoked, .generation2): return nil
            }
        }
    }
}
