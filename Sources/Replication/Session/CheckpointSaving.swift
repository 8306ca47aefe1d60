import BLIP
import Documents
import DocumentStore
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
        guard var checkpoint = sync.checkpoint, !checkpoint.timerIsRunning, !hasEnded else { return }
        checkpoint.timerIsRunning = true
        sync.checkpoint = checkpoint
        let slot = sync.slot
        eventLoop.scheduleTask(in: .seconds(Int64(limits.checkpointIntervalSeconds))) { [weak self] in
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
        let bytes = body.bytes(time: wallClockSeconds())
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
        let collection = sync.collection
        do {
            try await database.write { try $0.setRemoteRevisions(remote, collection, marks) }
            for (id, revision) in marks where feed.acknowledged[id] == revision { feed.acknowledged[id] = nil }
        } catch { fail(error) }
    }
}
