import Digests
import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// The first steps of an active session: collections, checkpoints, then the feeds.
extension ReplicationSession {
    /// One collection's checkpoint as both sides know it.
    private struct Start {
        /// Nil where there is none here.
        var own: [UInt8]?
        var peer: PeerCheckpoint
    }

    func setUp(_ active: ActiveConfiguration) async {
        do {
            try await open(active)
        } catch {
            turn { $0.fail(error) }
        }
        turn { $0.errands -= 1 }
    }

    private func open(_ active: ActiveConfiguration) async throws {
        let configuration = active.replicator
        let chosen = try configuration.collections.map { wanted in
            guard let collection = database.collection(wanted.collection) else {
                throw ReplicationError(
                    domain: .store, code: 404, message: "database \(database.name) has no collection \(wanted.collection)")
            }
            return (wanted, collection)
        }
        let ids = chosen.map { Self.checkpointID(configuration, $0.0, privateUUID: database.privateUUID) }
        let collections = chosen.map(\.1)
        let own = try await readOwn(ids, collections, resets: active.resets)
        guard let theirs = try await hear(ids, collections, active), !hasEnded else { return }
        let starts = zip(own, theirs).map { Start(own: $0, peer: $1) }
        let key = configuration.remoteKey
        let (remote, isKnown) = try await database.write { transaction in
            let isKnown = try transaction.existingRemote(for: key) != nil
            return (try transaction.remoteID(for: key), isKnown)
        }
        let newest = try await database.read { transaction in try collections.map { try transaction.lastSequence($0) } }
        if hasEnded { return }
        turn { session in
            session.links = chosen.enumerated().map { session.activeLink($0, $1.0, $1.1, remote, active) }
            session.life = .running
            for (index, link) in session.links.enumerated() {
                session.startFeeds(link, starts[index], ids[index], active, newest: newest[index], isKnown: isKnown)
            }
        }
    }

    /// The peer's checkpoints; nil when the connection ended first.
    private func hear(_ ids: [String], _ collections: [Collection], _ active: ActiveConfiguration) async throws -> [PeerCheckpoint]? {
        if hasEnded { return nil }
        let names = collections.map(\.name)
        let answer = await withCheckedContinuation { (done: Opening.Continuation) in
            turn { $0.dialect.open(Opening(checkpointIDs: ids, collections: names, done: done, namesNone: active.startsLegacy)) }
        }
        return try answer?.get()
    }

    private func readOwn(_ ids: [String], _ collections: [Collection], resets: Bool) async throws -> [[UInt8]?] {
        if resets { return ids.map { _ in nil } }
        return try await database.read { transaction in
            try zip(ids, collections).map { id, collection in try transaction.checkpoint(id: id, collection: collection)?.body }
        }
    }

    private func activeLink(
        _ slot: Int, _ wanted: CollectionReplication, _ collection: Collection, _ remote: RemoteID,
        _ active: ActiveConfiguration
    ) -> CollectionLink {
        let configuration = active.replicator
        var settings = PullSettings(
            collection: collection.name, role: .active,
            hasFilter: wanted.pullFilter != nil, hasSyncFunction: false, hasResolver: true, keepsLists: true,
            documentIDs: wanted.documentIDs.map(Set.init), skipsDeletions: wanted.skipsDeletions, limits: limits)
        settings.asksOnly = active.asksOnlySince != nil
        settings.takesOnlyWhatWasAskedFor = couch == nil
        let link = CollectionLink(
            slot: slot, collection: collection, pull: PullMachine(settings),
            source: FeedSource(
                collection: collection, remote: remote, skipsConflicts: true, skipsDeletions: wanted.skipsDeletions,
                documentIDs: wanted.documentIDs, naming: naming))
        link.pushFilter = wanted.pushFilter
        link.pullFilter = wanted.pullFilter
        link.remote = remote
        link.mayNameAll = configuration.type.pushes && wanted.pushFilter == nil
        link.resolver = ConflictDecider(
            database: database, collection: collection, resolver: wanted.resolver, shadow: wanted.shadow,
            context: policyContext(collection.name, .pull), scope: .remote(remote), attempts: limits.resolveAttempts,
            observer: configuration.conflictObserver)
        link.resolver?.keepsGreater = couch != nil
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
        if subscription.isContinuous, active.picksHere { subscription.documentIDs = nil }
        return subscription
    }

    private func startFeeds(_ link: CollectionLink, _ start: Start, _ id: String, _ active: ActiveConfiguration, newest: SequenceNumber, isKnown: Bool) {
        let configuration = active.replicator
        if let asked = active.asksOnlySince {
            let since = asked.indices.contains(link.slot) ? asked[link.slot] : nil
            link.pull.subscribe(since: since)
            touch(link)
            return dialect.subscribe(link.slot, subscription(active, link, since: since, isFirst: false))
        }
        let agreed = dialect.agree(own: start.own, start.peer)
        logger.debug(
            "checkpoint of \(link.collection.name) read: \(CheckpointBody(local: agreed.local, remote: agreed.remote).words)",
            metadata: ["here": "\(CheckpointBody.words(start.own))", "peer": "\(CheckpointBody.words(start.peer.body))"])
        if active.savesCheckpoint {
            link.checkpoint = CheckpointMachine(
                id: id, saved: CheckpointBody(local: agreed.local, remote: agreed.remote), token: start.peer.token, isRestartedByConflicts: couch != nil)
        }
        if let loss = agreed.loss { report(loss, of: link, after: agreed.local) }
        let compared = start.own.map { CheckpointBody.comparedThrough($0) } ?? 0
        let isUnderWay = agreed.local < compared
        link.source.trustsBehind = !agreed.trustsKnownRevisions ? newest : isUnderWay ? compared : 0
        // Where neither side has a checkpoint, nothing says that the peer lost one: the notes are of a replicator with other settings.
        let isNew = couch == nil && start.own == nil && start.peer.body == nil
        link.marks.areBelieved = agreed.trustsKnownRevisions && !isUnderWay || !isKnown || isNew
        if !link.marks.areBelieved, configuration.type.pushes { link.comparesThrough = link.source.trustsBehind }
        if configuration.type.pulls {
            link.pull.subscribe(since: agreed.remote)
            touch(link)
            // Left over from an earlier run: the local revision is readable, the decision is still due.
            tell(link, pull: .started)
            reviewOrphans(link)
            watchPullPolicies(link)
            let isFirst = start.own == nil && !active.resets && newest == 0
            dialect.subscribe(link.slot, subscription(active, link, since: agreed.remote, isFirst: isFirst))
        }
        // After the subscription: a listener with a resolver leaves conflicts to a peer that it knows to pull.
        if configuration.type.pushes {
            startPush(
                link, .propose, from: FeedPosition(agreed.local), isContinuous: configuration.isContinuous,
                pulls: configuration.type.pulls)
        }
        touch(link)
    }

    // MARK: - Feeds

    /// Starts a push and what tells it of news.
    func startPush(_ link: CollectionLink, _ style: PushStyle, from position: FeedPosition, isContinuous: Bool, pulls: Bool = false) {
        let settings = PushSettings(
            collection: link.collection.name, style: style, isContinuous: isContinuous, hasFilter: link.pushFilter != nil, pulls: pulls,
            limits: limits)
        link.push = PushMachine(settings, from: position, generation: link.generation)
        dialect.push(link.slot, style, generation: link.generation)
        let (slot, generation) = (link.slot, link.generation)
        let isDeaf = limits.has(.lostWakeUp)
        link.observation = database.observeChanges(link.collection) { [weak self] newest in
            if isDeaf, newest % 3 == 0 { return }
            self?.later { session in
                let link = session.links[slot]
                if link.push != nil, link.generation == generation { session.tell(link, push: .storeChanged(newest: newest)) }
            }
        }
        for changes in link.pushFilter?.allVersionChanges() ?? [] {
            watch(changes, link) { if $1.push != nil { $0.tell($1, push: .filterChanged) } }
        }
        tell(link, push: .decided([]))
    }

    /// A pull filter or resolver that changed is asked again about what its old version kept back.
    private func watchPullPolicies(_ link: CollectionLink) {
        for changes in link.pullFilter?.allVersionChanges() ?? [] {
            watch(changes, link) {
                $0.tell($1, pull: .filterChanged)
                $0.reviewOrphans($1)
            }
        }
        if let resolver = link.resolver?.resolver { watch(resolver.versionChanges(), link) { $0.tell($1, pull: .resolverChanged) } }
    }

    private func watch(
        _ versions: AsyncStream<String>, _ link: CollectionLink,
        _ changed: @escaping @Sendable (isolated ReplicationSession, CollectionLink) -> Void
    ) {
        let slot = link.slot
        link.watchers.append(
            environment.task { [weak self] in
                for await _ in versions { self?.later { changed($0, $0.links[slot]) } }
            })
    }

    /// Where a policy is asked.
    func policyContext(_ collection: CollectionName, _ direction: Direction) -> PolicyContext {
        var context = policyContext(of: collection, direction)
        if couch == nil { context.subprotocol = role.subprotocol(transport) }
        return context
    }

    private func policyContext(of collection: CollectionName, _ direction: Direction) -> PolicyContext {
        switch role {
        case .active(let active):
            PolicyContext(
                database: database.name, collection: collection, direction: direction, replicator: active.replicator.name,
                remote: active.replicator.shownTarget)
        case .passive(let passive):
            passive.policyContext(collection, direction, remote: transport.peerDescription)
        }
    }

    /// An id that is stable for the same database, remote, collection, directions and selection, and differs otherwise.
    package static func checkpointID(_ configuration: ReplicatorConfiguration, _ wanted: CollectionReplication, privateUUID: String) -> String {
        var parts = [
            privateUUID, configuration.remoteKey, wanted.collection.description, configuration.type.rawValue,
        ]
        if let ids = wanted.documentIDs { parts.append("ids " + ids.map(\.text).sorted().joined(separator: "\u{1}")) }
        if let channels = wanted.channels { parts.append("channels " + channels.sorted().joined(separator: "\u{1}")) }
        if let filter = wanted.sourceFilter { parts.append(filter.identity) }
        if let filter = wanted.pullFilter { parts.append((filter.changesBodies ? "pull_transform " : "pull_filter ") + filter.pluginName) }
        return "cp-" + Base64.encode(SHA1.hash(Array(parts.joined(separator: "\u{0}").utf8)))
    }
}
