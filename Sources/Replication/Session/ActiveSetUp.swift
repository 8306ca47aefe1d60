import BLIP
import Digests
import Documents
import DocumentStore
import Encodings
import Interfaces

/// The first steps of an active session: collections, checkpoints, then the feeds.
extension ReplicationSession {
    /// One collection's checkpoint as both sides know it.
    private struct Start {
        var own: CheckpointBody?
        var peer: CheckpointBody?
        var peerRevision = ""
    }

    func setUpActive(_ active: ActiveConfiguration) async {
        let configuration = active.replicator
        do {
            var chosen: [(CollectionReplication, Collection)] = []
            for wanted in configuration.collections {
                guard let collection = database.collection(wanted.collection) else {
                    throw ReplicationError(
                        domain: .store, code: 404, message: "database \(database.name) has no collection \(wanted.collection)")
                }
                chosen.append((wanted, collection))
            }
            let ids = chosen.map { Self.checkpointID(configuration, $0.0, privateUUID: database.privateUUID) }
            var starts = try await readOwn(ids, chosen.map(\.1), resets: active.resets)

            let onlyDefault = chosen.count == 1 && chosen[0].1.name == .default
            mode = .collections
            if active.startsLegacy, onlyDefault {
                mode = .legacy
            } else if try await askCollections(ids, chosen.map(\.1), &starts) == false {
                guard onlyDefault else {
                    throw ReplicationError(
                        domain: .websocket, code: 404,
                        message: "the peer knows no collections, and \(chosen.map { $0.1.name.description }.joined(separator: ", ")) was asked for")
                }
                mode = .legacy
            }
            if mode == .legacy { try await askCheckpoint(ids[0], &starts[0]) }
            if hasEnded { return }

            let key = configuration.remoteKey
            let remote = try await database.write { try $0.remoteID(for: key) }
            if hasEnded { return }
            for (index, (wanted, collection)) in chosen.enumerated() {
                let sync = CollectionSync(
                    slot: index, collection: collection, wireIndex: mode == .collections ? index : nil, limits: limits)
                sync.pushFilter = wanted.pushFilter
                sync.pullFilter = wanted.pullFilter
                sync.documentIDs = wanted.documentIDs
                sync.channels = wanted.channels
                sync.remote = remote
                collections.append(sync)
                sync.resolver = ConflictDecider(
                    database: database, collection: collection, resolver: wanted.resolver, shadow: wanted.shadow,
                    context: policyContext(sync, .pull), scope: .remote(remote), attempts: limits.resolveAttempts,
                    observer: configuration.conflictObserver)
            }
            isRunning = true
            for (index, sync) in collections.enumerated() {
                await startFeeds(sync, starts[index], ids[index], active)
                if hasEnded { return }
            }
            evaluate()
        } catch {
            fail(error)
        }
    }

    private func readOwn(_ ids: [String], _ collections: [Collection], resets: Bool) async throws -> [Start] {
        if resets { return ids.map { _ in Start() } }
        return try await database.read { transaction in
            try zip(ids, collections).map { id, collection in
                Start(own: try transaction.checkpoint(.own, id: id, collection: collection).map { CheckpointBody(parsing: $0.body) })
            }
        }
    }

    /// False when the peer has no handler for `getCollections`.
    private func askCollections(_ ids: [String], _ collections: [Collection], _ starts: inout [Start]) async throws -> Bool {
        let body = JSONValue.object(
            JSONObject([
                JSONObject.Member(key: "checkpoint_ids", value: .array(ids.map { .string($0) })),
                JSONObject.Member(key: "collections", value: .array(collections.map { .string($0.name.wireName) })),
            ]))
        guard let reply = await ask(request(Profile.getCollections, nil, body: body.serialize())) else { return true }
        if let error = reply.error {
            if error.domain == "BLIP", error.code == 404 { return false }
            throw ReplicationError(reply: error, to: Profile.getCollections)
        }
        guard case .array(let items)? = try? JSONValue(parsing: [UInt8](reply.body.readableBytesView)), items.count == ids.count else {
            throw ReplicationError(domain: .blip, code: 400, message: "the peer's answer to getCollections cannot be read")
        }
        for (index, item) in items.enumerated() {
            guard case .object(let object) = item else {
                throw ReplicationError(
                    domain: .websocket, code: 404, message: "the remote database has no collection \(collections[index].name)")
            }
            // LiteCore puts the token under rev, Sync Gateway under _rev.
            for key in ["rev", "_rev"] {
                if case .string(let text)? = object[key] { starts[index].peerRevision = text }
            }
            if !object.isEmpty { starts[index].peer = CheckpointBody(parsing: item.serialize()) }
        }
        return true
    }

    private func askCheckpoint(_ id: String, _ start: inout Start) async throws {
        var message = request(Profile.getCheckpoint, nil)
        message.properties.append(Property.client, id)
        guard let reply = await ask(message) else { return }
        if let error = reply.error {
            guard error.code == 404, error.domain == "HTTP" else { throw ReplicationError(reply: error, to: Profile.getCheckpoint) }
            return
        }
        start.peerRevision = reply.properties[Property.rev] ?? ""
        start.peer = CheckpointBody(parsing: [UInt8](reply.body.readableBytesView))
    }

    private func startFeeds(_ sync: CollectionSync, _ start: Start, _ id: String, _ active: ActiveConfiguration) async {
        let configuration = active.replicator
        let agreed = CheckpointBody.agree(own: start.own, peer: start.peer)
        var checkpoint = CheckpointSync(id: id, saved: CheckpointBody(local: agreed.local, remote: agreed.remote))
        checkpoint.peerRevision = start.peerRevision
        sync.checkpoint = checkpoint
        if configuration.type.pushes {
            let feed = PushFeed(
                style: .propose, since: agreed.local, isContinuous: configuration.isContinuous, activeOnly: false,
                documentIDs: sync.documentIDs)
            feed.trustsKnownRevisions = agreed.trustsKnownRevisions
            feed.needsReoffer = true
            sync.push = feed
        }
        if configuration.type.pulls {
            sync.pull.isSubscribed = true
            sync.pull.tracker = RemoteSequenceTracker(from: agreed.remote)
            // Left over from an earlier run: the local revision is readable, the decision is still due.
            work { await self.takeUpConflicts(sync) }
            work { await self.takeUpHeldRevisions(sync) }
            watchPullPolicies(sync)
            await subscribe(sync, since: agreed.remote, start, active)
            if hasEnded { return }
        }
        // After the subscription: a listener with a resolver leaves conflicts to a peer that it knows to pull.
        if let feed = sync.push { startPush(sync, feed) }
    }

    private func subscribe(_ sync: CollectionSync, since: RemoteSequence?, _ start: Start, _ active: ActiveConfiguration) async {
        var message = request(Profile.subChanges, sync)
        if let since { message.properties.append(Property.since, since.json) }
        if active.replicator.isContinuous { message.properties.append(Property.continuous, "true") }
        message.properties.append(Property.batch, String(limits.rowsPerChangeList))
        let collection = sync.collection
        let isEmpty = (try? await database.read { try $0.lastSequence(collection) }) == 0
        if start.own == nil, !active.resets, isEmpty { message.properties.append(Property.activeOnly, "true") }
        if active.replicator.autoPurge { message.properties.append(Property.revocations, "true") }
        message.properties.append(Property.versioning, "rev-trees")
        if let channels = sync.channels {
            message.properties.append(Property.filter, "sync_gateway/bychannel")
            message.properties.append(Property.channels, channels.joined(separator: ","))
        }
        if let ids = sync.documentIDs {
            let body = JSONValue.object(JSONObject([JSONObject.Member(key: "docIDs", value: .array(ids.map { .string($0.text) }))]))
            message.body = .init(bytes: body.serialize())
        }
        let final = message
        work {
            guard let reply = await self.ask(final), let error = reply.error else { return }
            self.connectionLevelError(error, Profile.subChanges)
        }
    }

    /// An error on a message that concerns the whole connection ends the run.
    func connectionLevelError(_ error: BLIPErrorReply, _ profile: String) {
        if mode == .collections, error.domain == "HTTP", error.code == 400, collections.count == 1,
            collections[0].collection.name == .default
        {
            // Couchbase Lite 3.2 with only a default collection answers getCollections and then refuses the property.
            wantsLegacy = true
            finish(error: ReplicationError(reply: error, to: profile), closeCode: 1000, reason: "")
            return
        }
        fail(ReplicationError(reply: error, to: profile))
    }

    /// An id that is stable for the same database, remote, collection, directions and selection, and differs otherwise.
    static func checkpointID(_ configuration: ReplicatorConfiguration, _ wanted: CollectionReplication, privateUUID: String) -> String {
        var parts = [
            privateUUID, configuration.remoteKey, wanted.collection.description, configuration.type.rawValue,
        ]
        if let ids = wanted.documentIDs { parts.append("ids " + ids.map(\.text).sorted().joined(separator: "\u{1}")) }
        if let channels = wanted.channels { parts.append("channels " + channels.sorted().joined(separator: "\u{1}")) }
        if let filter = wanted.pullFilter { parts.append("pull_filter " + filter.pluginName) }
        return "cp-" + Base64.encode(SHA1.hash(Array(parts.joined(separator: "\u{0}").utf8)))
    }
}
