import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// What the listening side does for a peer apart from push and pull: collections, subscriptions, and the peer's checkpoints, which are stored as
/// opaque bytes.
struct PassiveService {
    let driver: SessionDriver

    // MARK: - Collections

    /// A peer that starts without naming collections means the default one.
    func openDefaultCollection() {
        guard let collection = driver.database.collection(.default), mayUse(.default) else { return }
        driver.dialect.serve(1, byName: false)
        driver.links = [passiveLink(0, collection)]
    }

    func openCollections(_ wanted: CollectionsRequest, _ handle: AnswerHandle?) {
        let found = wanted.items.map { item in item.name.flatMap { mayUse($0) ? driver.database.collection($0) : nil } }
        // A single unknown collection makes the peer stop; nothing of the others is served until then.
        if !found.contains(where: { $0 == nil }) {
            driver.dialect.serve(found.count, byName: true)
            driver.links = found.enumerated().compactMap { index, collection in collection.map { passiveLink(index, $0) } }
        }
        driver.questions.take(.collections(handle, ids: wanted.items.map(\.checkpointID), found: found.map { $0 != nil }), handle)
    }

    private func passiveLink(_ slot: Int, _ collection: Collection) -> CollectionLink {
        guard case .passive(let all) = driver.role else {
            preconditionFailure("only a passive session serves collections")
        }
        let passive = all.of(collection.name)
        let hasResolver = passive.resolver != nil
        var settings = PullSettings(
            collection: collection.name, role: .passive(refusesPush: driver.pushRefusalReason != nil), hasFilter: passive.pullFilter != nil,
            hasSyncFunction: passive.syncFunction != nil, hasResolver: hasResolver, keepsLists: false, documentIDs: nil, limits: driver.limits)
        settings.largestBody = driver.database.maxBodyBytes
        let link = CollectionLink(
            slot: slot, collection: collection, pull: PullMachine(settings),
            source: FeedSource(collection: collection, skipsConflicts: false, naming: driver.naming))
        link.pushFilter = passive.pushFilter
        link.pullFilter = passive.pullFilter
        link.syncFunction = passive.syncFunction
        if let resolver = passive.resolver {
            link.resolver = ConflictDecider(
                database: driver.database, collection: collection, resolver: resolver, shadow: passive.shadow,
                context: driver.policyContext(collection.name, .pull), scope: .remote(.pusher), attempts: driver.limits.resolveAttempts,
                observer: passive.conflictObserver)
        }
        return link
    }

    private func mayUse(_ name: CollectionName) -> Bool {
        guard case .passive(let passive) = driver.role else { return true }
        return passive.mayUse(name)
    }

    // MARK: - Requests

    func handle(_ request: PassiveRequest, _ slot: Int, _ handle: AnswerHandle?) {
        switch request {
        case .checkpoint(let id): driver.questions.take(.checkpoint(handle, id: id), handle)
        case .setCheckpoint(let id, let body, let expected):
            driver.questions.take(.setCheckpoint(handle, id: id, body: body, expectedRevision: expected), handle)
        case .subscribe(let subscription):
            do throws(MessageError) { try subscribe(driver.links[slot], subscription, handle) } catch { driver.dialect.refuse(handle, error) }
        case .unsubscribe:
            endPush(driver.links[slot])
            driver.touch(driver.links[slot])
            driver.dialect.acknowledge(handle)
        }
    }

    // MARK: - Subscriptions

    private func subscribe(_ link: CollectionLink, _ subscription: PeerSubscription, _ handle: AnswerHandle?) throws(MessageError) {
        guard case .passive(let passive) = driver.role else { return }
        var channels: [String]?
        if let filter = subscription.filter { channels = try selectedChannels(filter, subscription.channels) }
        // A one-shot subscription may be followed by another, as Couchbase Lite does.
        if let running = link.push, running.settings.isContinuous {
            throw .conflict("this collection has a subscription already")
        }
        guard driver.dialect.awaitedReplies < driver.limits.revisionsInFlight else {
            throw .notNow(
                "not answered: \(Plural.count(driver.dialect.awaitedReplies, "revision")) of earlier subscriptions; revs_in_flight is \(driver.limits.revisionsInFlight)")
        }
        let subscribed = subscription.documentIDs.map(HeldBytes.ids) ?? 0
        // Unlike data in flight, it stays for as long as the peer is connected.
        guard subscribed == 0 || driver.memory.hasRoom(for: subscribed) else {
            throw .notNow("no memory for \(subscription.documentIDs?.count ?? 0) docIDs within limits.memory (\(driver.memory.limit)); come back later")
        }
        endPush(link)
        link.subscribedBytes = subscribed
        driver.accounts.subscribedBytes += subscribed
        link.generation += 1
        var source = FeedSource(
            collection: link.collection, skipsConflicts: false, activeOnlyThrough: subscription.activeOnly ? nil : 0,
            documentIDs: subscription.documentIDs, naming: driver.naming)
        // A filter may still reject it, or make it smaller.
        source.largestBody = driver.limits.largestGivenBody.map { link.pushFilter == nil ? $0 : 2 * $0 }
        let place = ChannelPlace(parsing: subscription.since)
        var position = FeedPosition(place.sequence)
        let peer = driver.channelPeer
        source.reportsTombstones = peer == nil && link.pushFilter == nil
        if let peer {
            position = FeedPosition(place.sequence, channels: place)
            source.channels = ChannelQuestion(
                peer: peer, channels: channels, ids: subscription.documentIDs.map(Set.init), waitsForRoutes: passive.syncFunction != nil)
            source.tells = Self.announcedChanges(driver.role.subprotocol(driver.transport), wantsRevocations: subscription.wantsRevocations)
        }
        link.source = source
        driver.tell(link, pull: .peerPulls)
        let (slot, generation, collection) = (link.slot, link.generation, link.collection)
        let (start, isContinuous) = (position, subscription.isContinuous)
        let begin: @Sendable (SessionDriver, FeedPosition) -> Void = { driver, position in
            driver.pendingSetUp -= 1
            guard driver.links[slot].generation == generation else { return }
            driver.dialect.acknowledge(handle)
            driver.opener.startPush(driver.links[slot], .announce, from: position, isContinuous: isContinuous)
        }
        let failed: @Sendable (SessionDriver, any Error) -> Void = { driver, error in
            driver.pendingSetUp -= 1
            driver.log(error)
            driver.dialect.refuse(handle, .busy)
        }
        driver.pendingSetUp += 1
        let wantsFuture = subscription.wantsFuture
        let findStart: @Sendable (SessionDriver) -> Void = { driver in
            guard wantsFuture else { return begin(driver, start) }
            driver.read { try $0.lastSequence(collection) } then: { driver, last in
                begin(driver, FeedPosition(last, channels: start.channels == nil ? nil : ChannelPlace(last)))
            } failed: { failed($0, $1) }
        }
        noteAccess(link, then: findStart, failed: failed)
    }

    private func endPush(_ link: CollectionLink) {
        link.endPush()
        driver.outgoing.remove(slot: link.slot)
        driver.accounts.subscribedBytes -= link.subscribedBytes
        link.subscribedBytes = 0
        link.source.documentIDs = Optional.none
        link.source.channels?.ids = Optional.none
        driver.blobs.files.inFlight.remove(slot: link.slot)
    }

    /// Records the channels that the authenticator reported for the peer, once per collection, before anything is asked about them.
    private func noteAccess(
        _ link: CollectionLink, then: @escaping @Sendable (SessionDriver) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        guard case .passive(let passive) = driver.role, let peer = driver.channelPeer, !link.hasSetAccess else { return then(driver) }
        let (slot, collection, principal) = (link.slot, link.collection, passive.principal)
        driver.write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        } then: { driver, _ in
            driver.links[slot].hasSetAccess = true
            then(driver)
        } failed: { failed($0, $1) }
    }

    /// What the peer may see of a collection.
    func view(
        _ link: CollectionLink, then: @escaping @Sendable (SessionDriver, PeerView) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        let view = PeerView(
            database: driver.database, collection: link.collection, peer: driver.channelPeer, filter: link.pushFilter,
            context: driver.policyContext(link.collection.name, .push), naming: driver.naming)
        noteAccess(link) { then($0, view) } failed: { failed($0, $1) }
    }

    /// The channels of `filter: sync_gateway/bychannel`.
    private func selectedChannels(_ filter: String, _ names: String?) throws(MessageError) -> [String] {
        guard driver.channelPeer != nil, filter == ChannelSelection.filter else {
            throw .unknownFilter(filter)
        }
        let channels = ChannelSelection.names(names ?? "")
        guard !channels.isEmpty else { throw .bad("the filter \(ChannelSelection.filter) needs the property channels, names with commas between") }
        guard channels.count <= driver.limits.maximumChannels else {
            throw .tooLarge("subChanges names \(channels.count) channels, max_channels is \(driver.limits.maximumChannels)")
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
