import Digests
import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// Finds out, step by step and off the session, what the two sides of an active session know of each other before replication starts.
private struct SessionOpening: Sendable {
    let active: ActiveConfiguration
    let database: Database
    /// Asks the peer; answered with nil if the connection ended first.
    let ask: @Sendable (Opening) -> Void

    /// One collection's checkpoint as known to both sides.
    struct Start: Sendable {
        let wanted: CollectionReplication
        let collection: Collection
        /// The id of the checkpoint on both sides.
        let id: String
        /// Nil if there is none here.
        var own: [UInt8]?
        var peer: PeerCheckpoint
        /// The newest sequence of the collection.
        var newest: SequenceNumber
    }

    struct Found: Sendable {
        var starts: [Start]
        var remote: RemoteID
        /// We have replicated with it before.
        var isKnown: Bool
    }

    /// - Returns: nil if the connection ended first.
    func find() async throws -> Found? {
        let configuration = active.replicator
        let chosen = try configuration.collections.map { wanted in
            guard let collection = database.collection(wanted.collection) else {
                throw ReplicationError(
                    domain: .store, code: 404, message: "database \(database.name) has no collection \(wanted.collection)")
            }
            return (wanted, collection)
        }
        let ids = chosen.map { configuration.checkpointID(of: $0.0, privateUUID: database.privateUUID) }
        let collections = chosen.map(\.1)
        let own = try await readOwn(ids, collections)
        guard let theirs = try await hear(ids, collections.map(\.name)) else { return nil }
        let key = configuration.remoteKey
        let (remote, isKnown) = try await database.write { transaction in
            let isKnown = try transaction.existingRemote(for: key) != nil
            return (try transaction.remoteID(for: key), isKnown)
        }
        let newest = try await database.read { transaction in try collections.map { try transaction.lastSequence($0) } }
        let starts = chosen.indices.map { index in
            Start(
                wanted: chosen[index].0, collection: chosen[index].1, id: ids[index], own: own[index], peer: theirs[index], newest: newest[index])
        }
        return Found(starts: starts, remote: remote, isKnown: isKnown)
    }

    private func readOwn(_ ids: [String], _ collections: [Collection]) async throws -> [[UInt8]?] {
        if active.resets { return ids.map { _ in nil } }
        return try await database.read { transaction in
            try zip(ids, collections).map { id, collection in try transaction.checkpoint(id: id, collection: collection)?.body }
        }
    }

    /// The peer's checkpoints; nil if the connection ended first.
    private func hear(_ ids: [String], _ names: [CollectionName]) async throws -> [PeerCheckpoint]? {
        let answer = await withCheckedContinuation { (done: Opening.Continuation) in
            ask(Opening(checkpointIDs: ids, collections: names, done: done, namesNoCollections: active.startsLegacy))
        }
        return try answer?.get()
    }
}

/// The first steps of an active session: collections, checkpoints, then the feeds.
struct SessionOpener {
    let driver: SessionDriver

    func open(_ active: ActiveConfiguration) {
        guard let owner = driver.owner else { return }
        driver.pendingSetUp += 1
        let opening = SessionOpening(active: active, database: driver.database) { opening in owner.ask(opening) }
        driver.attempt { try await opening.find() } then: { driver, found in
            if let found { driver.opener.begin(found, active) }
            driver.pendingSetUp -= 1
        } failed: { driver, error in
            driver.fail(error)
            driver.pendingSetUp -= 1
        }
    }

    private func begin(_ found: SessionOpening.Found, _ active: ActiveConfiguration) {
        driver.links = found.starts.enumerated().map { activeLink($0, $1.wanted, $1.collection, found.remote, active) }
        driver.outgoing.hasPriorities = Set(driver.links.map(\.priority)).count > 1
        driver.life = .running
        for (link, start) in zip(driver.links, found.starts) { startFeeds(link, start, active, isKnown: found.isKnown) }
    }

    private func activeLink(
        _ slot: Int, _ wanted: CollectionReplication, _ collection: Collection, _ remote: RemoteID,
        _ active: ActiveConfiguration
    ) -> CollectionLink {
        let configuration = active.replicator
        var settings = PullSettings(
            collection: collection.name, role: .active,
            hasFilter: wanted.pullFilter != nil, hasSyncFunction: false, hasResolver: true, keepsLists: true,
            documentIDs: wanted.documentIDs.map(Set.init), skipsDeletions: wanted.skipsDeletions, limits: driver.limits)
        settings.asksOnly = active.asksOnlySince != nil
        settings.isContinuous = active.replicator.isContinuous
        settings.insists = active.insists
        settings.reviewsHeld = active.reviewsHeld
        settings.heldBefore = active.heldBefore[collection.name] ?? []
        settings.refusesUnsolicited = driver.dialect.traits.refusesUnsolicited
        settings.largestBody = driver.database.maxBodyBytes
        var source = FeedSource(
            collection: collection, remote: remote, skipsConflicts: true, skipsDeletions: wanted.skipsDeletions, documentIDs: wanted.documentIDs,
            naming: driver.naming)
        source.followsLosers = driver.dialect.traits.peerHasOne
        let link = CollectionLink(slot: slot, collection: collection, pull: PullMachine(settings), source: source)
        link.priority = wanted.priority
        link.pushFilter = wanted.pushFilter
        link.pullFilter = wanted.pullFilter
        link.remote = remote
        link.mayNameAll = configuration.type.pushes && wanted.pushFilter == nil
        link.resolver = ConflictDecider(
            database: driver.database, collection: collection, resolver: wanted.resolver, shadow: wanted.shadow,
            context: driver.policyContext(collection.name, .pull), scope: .remote(remote), attempts: driver.limits.resolveAttempts,
            observer: configuration.conflictObserver)
        link.resolver?.keepsGreater = driver.dialect.traits.keepsGreater
        return link
    }

    private func subscription(
        _ active: ActiveConfiguration, _ link: CollectionLink, since: RemoteSequence?, isFirst: Bool
    ) -> PullSubscription {
        let wanted = active.replicator.collections[link.slot]
        var subscription = PullSubscription(
            since: since, isContinuous: active.replicator.isContinuous, isFirst: isFirst, channels: wanted.channels,
            documentIDs: wanted.documentIDs)
        subscription.sourceFilter = wanted.sourceFilter
        if subscription.isContinuous, active.selectsLocally { subscription.documentIDs = nil }
        return subscription
    }

    private func startFeeds(_ link: CollectionLink, _ start: SessionOpening.Start, _ active: ActiveConfiguration, isKnown: Bool) {
        let configuration = active.replicator
        if let asked = active.asksOnlySince {
            let since = asked.indices.contains(link.slot) ? asked[link.slot] : nil
            link.pull.subscribe(since: since)
            driver.touch(link)
            return driver.dialect.subscribe(link.slot, subscription(active, link, since: since, isFirst: false))
        }
        let isAboutAnother = start.own.map { CheckpointBody.isAboutAnother($0, than: configuration.login) } ?? false
        if isAboutAnother {
            driver.logger.notice(
                "the checkpoint of \(link.collection.name) was made with another login, which may see other documents: everything is compared again")
        }
        // How far another login got says nothing about what this one has not seen, and a peer without such a checkpoint has lost nothing.
        let agreed = driver.dialect.agree(own: isAboutAnother ? nil : start.own, start.peer)
        driver.logger.debug(
            "checkpoint of \(link.collection.name) read: \(CheckpointBody(local: agreed.local, remote: agreed.remote).words)",
            metadata: ["here": "\(CheckpointBody.words(start.own))", "peer": "\(CheckpointBody.words(start.peer.body))"])
        if active.savesCheckpoint {
            link.checkpoint = CheckpointMachine(
                id: start.id, saved: CheckpointBody(local: agreed.local, remote: agreed.remote), token: start.peer.token,
                isRestartedByConflicts: driver.dialect.traits.isRestartedByConflicts)
        }
        if let loss = agreed.loss { driver.reports.report(loss, of: link, after: agreed.local) }
        let compared = start.own.map { CheckpointBody.comparedThrough($0) } ?? 0
        let isUnderWay = agreed.local < compared
        link.source.trustsBehind = !agreed.trustsKnownRevisions ? start.newest : isUnderWay ? compared : 0
        // If neither side has a checkpoint, nothing indicates that the peer lost one: the notes come from a replicator with other settings.
        let isNew = driver.dialect.traits.saysThatCheckpointIsMissing && start.own == nil && start.peer.body == nil
        link.marks.areCredible = agreed.trustsKnownRevisions && !isUnderWay || !isKnown || isNew
        if !link.marks.areCredible, configuration.type.pushes { link.comparesThrough = link.source.trustsBehind }
        if configuration.type.pulls {
            let since: RemoteSequence? = if let start = active.startsSince[link.collection.name] { start } else { agreed.remote }
            link.pulledFrom = since
            link.pull.subscribe(since: since)
            driver.touch(link)
            // Left over from an earlier run: the local revision is readable, and the decision is still due.
            driver.tell(link, pull: .started)
            driver.removals.reviewOrphans(link)
            watchPullPolicies(link)
            let isFirst = start.own == nil && !active.resets && start.newest == 0
            driver.dialect.subscribe(link.slot, subscription(active, link, since: since, isFirst: isFirst))
        }
        // After the subscription: a listener with a resolver leaves conflicts to a peer that it knows to pull.
        if configuration.type.pushes {
            startPush(
                link, .propose, from: FeedPosition(agreed.local), isContinuous: configuration.isContinuous,
                pulls: configuration.type.pulls)
        }
        driver.touch(link)
    }

    // MARK: - Feeds

    /// Starts a push and the observation of changes for it.
    func startPush(_ link: CollectionLink, _ style: PushStyle, from position: FeedPosition, isContinuous: Bool, pulls: Bool = false) {
        let settings = PushSettings(
            collection: link.collection.name, style: style, isContinuous: isContinuous, hasFilter: link.pushFilter != nil, pulls: pulls,
            limits: driver.limits)
        let unanswered = style == .propose ? driver.counters.takeUnanswered(of: link.collection.name) : UnansweredPushes()
        link.push = PushMachine(settings, from: position, generation: link.generation, unanswered: unanswered)
        driver.dialect.push(link.slot, style, generation: link.generation)
        let (slot, generation) = (link.slot, link.generation)
        let missesWakeUps = driver.limits.hasPlanted(.lostWakeUp)
        link.observation = driver.database.observeChanges(link.collection) { [weak owner = driver.owner] newest in
            if missesWakeUps, newest % 3 == 0 { return }
            owner?.later { driver in
                let link = driver.links[slot]
                if link.push != nil, link.generation == generation { driver.tell(link, push: .storeChanged(newest: newest)) }
            }
        }
        if style == .propose {
            link.mends = driver.database.observeMendedBlobs { [weak owner = driver.owner] digest in
                owner?.later { $0.tell(slot, generation, push: .blobMended(digest)) }
            }
        }
        for changes in link.pushFilter?.allVersionChanges() ?? [] {
            watch(changes, link) { if $1.push != nil { $0.tell($1, push: .filterChanged) } }
        }
        driver.tell(link, push: .decided([]))
    }

    /// When a pull filter or resolver changes, it is asked again about what its old version kept back.
    private func watchPullPolicies(_ link: CollectionLink) {
        for changes in link.pullFilter?.allVersionChanges() ?? [] {
            watch(changes, link) {
                $0.tell($1, pull: .filterChanged)
                $0.removals.reviewOrphans($1)
            }
        }
        if let resolver = link.resolver?.resolver { watch(resolver.versionChanges(), link) { $0.tell($1, pull: .resolverChanged) } }
    }

    private func watch(
        _ versions: AsyncStream<String>, _ link: CollectionLink,
        _ changed: @escaping @Sendable (SessionDriver, CollectionLink) -> Void
    ) {
        let slot = link.slot
        link.watchers.append(
            driver.environment.task { [weak owner = driver.owner] in
                for await _ in versions { owner?.later { changed($0, $0.links[slot]) } }
            })
    }
}
