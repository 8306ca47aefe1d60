import BLIP
import Documents
import DocumentStore
import Environment
import NIOCore

/// The active side's own checkpoints: to the peer first, and here only after its success, so that ours is never ahead.
extension ReplicationSession {
    private func current(_ sync: CollectionSync) -> CheckpointBody {
        CheckpointBody(
            local: sync.push?.tracker.completedThrough ?? sync.checkpoint?.saved.local ?? 0,
            remote: sync.pull.tracker?.completedThrough ?? sync.checkpoint?.saved.remote)
    }

    var checkpointsAreSaved: Bool {
        collections.allSatisfy { sync in
            guard let checkpoint = sync.checkpoint else { return true }
            return !checkpoint.isSaving && !checkpoint.isDirty(current(sync))
        }
    }

    /// Something advanced: a save follows within `checkpoint_interval`.
    func progressed(_ sync: CollectionSync) {
        guard sync.checkpoint?.timerIsRunning == false, !hasEnded else { return }
        sync.checkpoint?.timerIsRunning = true
        let slot = sync.slot
        context.schedule(afterSeconds: limits.checkpointIntervalSeconds) { [weak self] in
            self?.assumeIsolated { session in
                let sync = session.collections[slot]
                sync.checkpoint?.timerIsRunning = false
                session.saveCheckpoint(sync)
            }
        }
    }

    func saveCheckpoints() {
        for sync in collections { saveCheckpoint(sync) }
    }

    func saveCheckpoint(_ sync: CollectionSync) {
        let body = current(sync)
        guard var checkpoint = sync.checkpoint, !checkpoint.isSaving, checkpoint.isDirty(body), !hasEnded else { return }
        checkpoint.isSaving = true
        sync.checkpoint = checkpoint
        work {
            await self.save(sync, body)
            sync.checkpoint?.isSaving = false
        }
    }

    private func save(_ sync: CollectionSync, _ body: CheckpointBody) async {
        guard let checkpoint = sync.checkpoint else { return }
        // What the checkpoint claims must be noted first: the known revisions of the documents below it.
        await flushMarks(sync)
        let bytes = body.bytes(time: Environment.system.time.wallSeconds())
        var token = checkpoint.peerRevision
        for attempt in 0..<3 {
            var message = request(Profile.setCheckpoint, sync, body: bytes)
            message.properties.append(Property.client, checkpoint.id)
            message.properties.append(Property.rev, token)
            guard let reply = await ask(message) else { return }
            guard let error = reply.error else {
                token = reply.properties[Property.rev] ?? token
                sync.checkpoint?.peerRevision = token
                let id = checkpoint.id
                let collection = sync.collection
                do {
                    _ = try await database.write { try $0.setCheckpoint(.own, id: id, collection: collection, body: bytes) }
                    sync.checkpoint?.saved = body
                } catch { fail(error) }
                return
            }
            guard error.domain == "HTTP", error.code == 409, attempt < 2 else {
                if error.code == 503 || error.code == 403 {
                    connectionLevelError(error, Profile.setCheckpoint)
                } else {
                    // Progress that cannot be saved is made again next time; the documents themselves went on.
                    logger.warning("the peer did not save the checkpoint: \(error)")
                    sync.checkpoint?.isBroken = true
                }
                return
            }
            var refresh = request(Profile.getCheckpoint, sync)
            refresh.properties.append(Property.client, checkpoint.id)
            guard let answer = await ask(refresh) else { return }
            token = answer.error == nil ? answer.properties[Property.rev] ?? "" : ""
        }
    }

    /// Notes in the store which revisions the peer acknowledged.
    func flushMarks(_ sync: CollectionSync) async {
        guard let feed = sync.push, let remote = sync.remote, !feed.unsavedMarks.isEmpty else { return }
        let marks = feed.unsavedMarks
        feed.unsavedMarks = []
        let included = Array(feed.unsavedInclusions)
        feed.unsavedInclusions = []
        let collection = sync.collection
        do {
            try await database.write { transaction in
                try transaction.markRemote(remote, collection, marks)
                if !included.isEmpty { try transaction.unexclude(collection, remote: remote, direction: .push, ids: included) }
            }
            for (id, revision) in marks where feed.acknowledged[id] == revision { feed.acknowledged[id] = nil }
        } catch { fail(error) }
    }
}

extension WriteTransaction {
    /// Notes what the peer holds. A document known to too many remotes goes without: it is proposed once more some day.
    func markRemote(_ remote: RemoteID, _ collection: Collection, _ marks: [(DocumentID, RevisionID)]) throws(StoreError) {
        do { try setRemoteRevisions(remote, collection, marks) } catch {
            guard error.concernsOneDocument else { throw error }
            for mark in marks {
                do { try setRemoteRevisions(remote, collection, [mark]) } catch {
                    guard error.concernsOneDocument else { throw error }
                }
            }
        }
    }
}
