import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// What the listening side does for a peer beside push and pull: collections, subscriptions, and the peer's checkpoints, which are
/// bytes in and bytes out.
extension ReplicationSession {
    /// What the peer said.
    func handle(_ event: consuming DialectEvent) {
        switch consume event {
        case .push(let slot, let event):
            guard slot < links.count else { return }
            if links[slot].push != nil { tell(links[slot], push: event) }
        case .revisionAnswered(let trip, let error):
            files.lent.takeBack(trip)
            // One that an earlier subscription sent is no business of this one.
            guard trip.slot < links.count, links[trip.slot].push != nil, links[trip.slot].generation == trip.generation else { return }
            if sendsWholeAgain(trip.id, error, links[trip.slot]) { return }
            tell(links[trip.slot], push: error.map { .refused(trip.id, $0) } ?? .acknowledged(trip.id))
        case .pull(let slot, let event): handle(event, slot)
        case .checkpoint(let slot, let event): if slot < links.count { tell(links[slot], checkpoint: event) }
        case .blob(.wanted(let request)) where request.slot >= links.count: refuseCollection(request.handle)
        case .blob(let event): tell(blobs: event)
        case .passive(let slot, let handle, let request):
            guard slot < links.count else { return refuseCollection(handle) }
            self.handle(request, slot, handle)
        case .collectionsWanted(let handle, let wanted): openCollections(wanted, handle)
        case .defaultCollectionWanted: openDefaultCollection()
        case .wantsMore(let handle): supply(handle)
        case .failed(let error, let wantsLegacy):
            guard wantsLegacy else { return fail(error) }
            finish(.wantsLegacy, error: error, closeCode: 1000, reason: "")
        case .cannotPick(let error): finish(.picksHere, error: error, closeCode: 1000, reason: "")
        case .refuse(let handle, let error): dialect.refuse(handle, error)
        case .readElsewhere(let body, let read): readElsewhere(body, read)
        case .warn(let message): logger.notice("\(message)", metadata: ["peer": "\(transport.peerDescription)"])
        }
    }

    private func handle(_ event: PullEvent, _ slot: Int) {
        guard slot < links.count else {
            switch event {
            case .listArrived(let list): refuseCollection(list.handle)
            case .arrived(let revision): refuseCollection(revision.replyTo)
            default: break
            }
            return
        }
        let link = links[slot]
        switch event {
        case .listArrived(let list) where !isPassive && !link.pull.isSubscribed:
            dialect.refuse(list.handle, MessageError(code: 403, message: "nothing was subscribed to here"))
        case .arrived(let revision):
            if let refusal = refusal(of: revision, link) {
                dialect.refuse(revision.replyTo, refusal)
                let error = ReplicationError(domain: .http, code: refusal.code, message: refusal.message)
                tell(link, pull: .arrivalRefused(revision.sequence, revision.id, error, isFinal: refusal.code != 503))
            } else if revision.deltaSource != nil {
                take(delta: revision, link)
            } else {
                tell(link, pull: event)
            }
        default: tell(link, pull: event)
        }
    }

    private func refusal(of revision: ReceivedRevision, _ link: CollectionLink) -> MessageError? {
        if let why = whyNothingMayBePushed { return MessageError(code: 403, message: why) }
        if !isPassive, !link.pull.isSubscribed { return MessageError(code: 403, message: "nothing was subscribed to here") }
        guard isOverfull else { return nil }
        return MessageError(
            code: 503,
            message: "more revisions wait to be stored than max_buffered_rev_bytes (\(limits.maximumBufferedRevisionBytes)) allows")
    }

    private func refuseCollection(_ handle: AnswerHandle?) {
        dialect.refuse(handle, MessageError(code: 403, message: "the default collection is not open to this peer"))
    }

    // MARK: - Collections

    /// A peer that begins without naming collections means the default one.
    private func openDefaultCollection() {
        guard let collection = database.collection(.default), mayUse(.default) else { return }
        dialect.serve(1, byName: false)
        links = [passiveLink(0, collection)]
    }

    private func openCollections(_ wanted: CollectionsRequest, _ handle: AnswerHandle?) {
        let found = wanted.items.map { item in item.name.flatMap { mayUse($0) ? database.collection($0) : nil } }
        // One unknown collection and the peer stops; until then nothing of the others is served.
        if !found.contains(where: { $0 == nil }) {
            dialect.serve(found.count, byName: true)
            links = found.enumerated().compactMap { index, collection in collection.map { passiveLink(index, $0) } }
        }
        take(.collections(handle, ids: wanted.items.map(\.checkpointID), found: found.map { $0 != nil }), handle)
    }

    private func passiveLink(_ slot: Int, _ collection: Collection) -> CollectionLink {
        guard case .passive(let passive) = role else {
            preconditionFailure("only a passive session serves collections")
        }
        let hasResolver = passive.resolver != nil
        let settings = PullSettings(
            collection: collection.name, role: .passive(refusesPush: whyNothingMayBePushed != nil), hasFilter: passive.pullFilter != nil,
            hasSyncFunction: passive.syncFunction != nil, hasResolver: hasResolver, keepsLists: false, documentIDs: nil, limits: limits)
        let link = CollectionLink(
            slot: slot, collection: collection, pull: PullMachine(settings),
            source: FeedSource(collection: collection, skipsConflicts: false, naming: naming))
        link.pushFilter = passive.pushFilter
        link.pullFilter = passive.pullFilter
        link.syncFunction = passive.syncFunction
        if let resolver = passive.resolver {
            link.resolver = ConflictDecider(
                database: database, collection: collection, resolver: resolver, shadow: passive.shadow,
                context: policyContext(collection.name, .pull), scope: .remote(.pusher), attempts: limits.resolveAttempts,
                observer: passive.conflictObserver)
        }
        return link
    }

    private func mayUse(_ name: CollectionName) -> Bool {
        guard case .passive(let passive) = role else { return true }
        return passive.mayUse(name)
    }

    // MARK: - Requests

    private func handle(_ request: PassiveRequest, _ slot: Int, _ handle: AnswerHandle?) {
        switch request {
        case .checkpoint(let id): take(.checkpoint(handle, id: id), handle)
        case .setCheckpoint(let id, let body, let expected):
            take(.setCheckpoint(handle, id: id, body: body, expectedRevision: expected), handle)
        case .subscribe(let subscription):
            do throws(MessageError) { try subscribe(links[slot], subscription, handle) } catch { dialect.refuse(handle, error) }
        case .unsubscribe:
            endPush(links[slot])
            touch(links[slot])
            dialect.acknowledge(handle)
        }
    }

    // MARK: - Subscriptions

    private func subscribe(_ link: CollectionLink, _ subscription: PeerSubscription, _ handle: AnswerHandle?) throws(MessageError) {
        guard case .passive(let passive) = role else { return }
        var channels: [String]?
        if let filter = subscription.filter { channels = try selectedChannels(filter, subscription.channels) }
        // A one-shot subscription may be followed by another, as in Couchbase Lite.
        if let running = link.push, running.settings.isContinuous {
            throw MessageError(code: 409, message: "this collection has a subscription already")
        }
        guard dialect.awaitedReplies < limits.revisionsInFlight else {
            throw MessageError(
                code: 503, message: "not answered: \(Plural.count(dialect.awaitedReplies, "revision")) of earlier subscriptions; revs_in_flight is \(limits.revisionsInFlight)")
        }
        let subscribed = subscription.documentIDs.map(HeldBytes.ids) ?? 0
        // Unlike what is on its way, it stays for as long as the peer does.
        guard subscribed == 0 || memory.hasRoom(for: subscribed) else {
            throw MessageError(code: 503, message: "no memory for \(subscription.documentIDs?.count ?? 0) docIDs within limits.memory (\(memory.limit)); come back later")
        }
        endPush(link)
        link.subscribedBytes = subscribed
        subscribedBytes += subscribed
        link.generation += 1
        var source = FeedSource(
            collection: link.collection, skipsConflicts: false, activeOnly: subscription.activeOnly, documentIDs: subscription.documentIDs,
            naming: naming)
        let place = ChannelPlace(parsing: subscription.since)
        var position = FeedPosition(place.sequence)
        let peer = channelPeer
        source.tellsTombstones = peer == nil && link.pushFilter == nil
        if let peer {
            position = FeedPosition(place.sequence, channels: place)
            source.channels = ChannelQuestion(
                peer: peer, channels: channels, ids: subscription.documentIDs.map(Set.init), waitsForRoutes: passive.syncFunction != nil)
            source.tells = Self.news(role.subprotocol(transport), wantsRevocations: subscription.wantsRevocations)
        }
        link.source = source
        tell(link, pull: .peerPulls)
        let (slot, generation, collection) = (link.slot, link.generation, link.collection)
        let (start, isContinuous) = (position, subscription.isContinuous)
        let begin: @Sendable (isolated ReplicationSession, FeedPosition) -> Void = { session, position in
            session.errands -= 1
            guard session.links[slot].generation == generation else { return }
            session.dialect.acknowledge(handle)
            session.startPush(session.links[slot], .announce, from: position, isContinuous: isContinuous)
        }
        let failed: @Sendable (isolated ReplicationSession, any Error) -> Void = { session, error in
            session.errands -= 1
            session.log(error)
            session.dialect.refuse(handle, .busy)
        }
        errands += 1
        let wantsFuture = subscription.wantsFuture
        let findStart: @Sendable (isolated ReplicationSession) -> Void = { session in
            guard wantsFuture else { return begin(session, start) }
            session.read { try $0.lastSequence(collection) } then: { session, last in
                begin(session, FeedPosition(last, channels: start.channels == nil ? nil : ChannelPlace(last)))
            } failed: { failed($0, $1) }
        }
        noteAccess(link, then: findStart, failed: failed)
    }

    private func endPush(_ link: CollectionLink) {
        link.endPush()
        outgoing.remove(slot: link.slot)
        subscribedBytes -= link.subscribedBytes
        link.subscribedBytes = 0
        link.source.documentIDs = Optional.none
        link.source.channels?.ids = Optional.none
        files.lent.takeBack(slot: link.slot)
    }

    /// Notes what the authenticator said of the peer's channels, once for a collection, before anything is asked about them.
    private func noteAccess(
        _ link: CollectionLink, then: @escaping @Sendable (isolated ReplicationSession) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void
    ) {
        guard case .passive(let passive) = role, let peer = channelPeer, !link.hasSetAccess else { return then(self) }
        let (slot, collection, principal) = (link.slot, link.collection, passive.principal)
        write {
            try $0.setAccess(of: peer, collection, channels: principal.channels ?? [], roles: principal.roles ?? [])
        } then: { session, _ in
            session.links[slot].hasSetAccess = true
            then(session)
        } failed: { failed($0, $1) }
    }

    /// What the peer may have of a collection.
    func view(
        _ link: CollectionLink, then: @escaping @Sendable (isolated ReplicationSession, PeerView) -> Void,
        failed: @escaping @Sendable (isolated ReplicationSession, any Error) -> Void
    ) {
        let view = PeerView(
            database: database, collection: link.collection, peer: channelPeer, filter: link.pushFilter,
            context: policyContext(link.collection.name, .push), naming: naming)
        noteAccess(link) { then($0, view) } failed: { failed($0, $1) }
    }

    /// The channels of `filter: sync_gateway/bychannel`.
    private func selectedChannels(_ filter: String, _ names: String?) throws(MessageError) -> [String] {
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

    /// What a peer of this generation is told of documents that it may no longer have.
    private static func news(
        _ subprotocol: Subprotocol, wantsRevocations: Bool
    ) -> @Sendable (OutgoingDocument) -> OutgoingDocument? {
        { document in
            switch (document.news, subprotocol) {
            case (.visible, _): return document
            case (_, .generation3), (_, .generation4): return wantsRevocations ? document : nil
            case (.removed, .generation2):
                // An ordinary row, whose revision then says that the document went.
                var document = document
                document.goesByBody = true
                return document
            case (.revoked, .generation2): return nil
            }
        }
    }
}
