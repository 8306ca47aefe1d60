import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// Carries out the actions of the checkpoint machine: at the peer, which keeps a copy, and in the store.
struct CheckpointActions {
    let session: SessionDriver

    func perform(_ action: CheckpointMachine.Action, _ link: CollectionLink) {
        let slot = link.slot
        guard let id = link.checkpoint?.id else { return }
        switch action {
        case .startTimer(let intervals):
            session.later(milliseconds: intervals * session.limits.checkpointIntervalSeconds * 1_000) { $0.tell($0.links[slot], checkpoint: .timerElapsed) }
        case .note:
            if link.push != nil { session.tell(link, push: .recordNow) }
            session.notifyWhenNoted(link)
        case .saveAtPeer(let body, let token):
            link.checkpointBytes = session.dialect.checkpointText(body, time: session.environment.time.wallSeconds())
            session.dialect.saveCheckpoint(slot, id: id, body: link.checkpointBytes, token: token)
        case .fetchToken: session.dialect.fetchCheckpoint(slot, id: id)
        case .saveHere(let body): saveHere(link.checkpointBytes, body, id, link)
        case .saveHereOnly(let body, let token):
            saveHere(CheckpointBody.hereOnly(session.dialect.checkpointText(body, time: session.environment.time.wallSeconds()), besides: token), body, id, link)
        case .warn(let message): session.logger.warning("\(message)")
        case .fail(let error):
            session.savedNoCheckpoint = link.checkpoint?.hasSaved != true
            session.fail(error)
        }
    }

    private func saveHere(_ bytes: [UInt8], _ body: CheckpointBody, _ id: String, _ link: CollectionLink) {
        let (slot, collection) = (link.slot, link.collection)
        var bytes = body.local < link.comparesThrough ? CheckpointBody.comparing(bytes, through: link.comparesThrough) : bytes
        if case .active(let active) = session.role, let login = active.replicator.login { bytes = CheckpointBody.made(as: login, bytes) }
        let copy = bytes
        session.write { _ = try $0.setCheckpoint(id: id, collection: collection, body: copy) } then: { session, _ in
            let isAtPeer = session.links[slot].checkpoint?.refusal == nil
            if isAtPeer { session.observer.checkpointSaved(collection.name) }
            session.logger.debug("checkpoint of \(collection.name) saved\(isAtPeer ? "" : " here only"): \(body.words)")
            session.tell(session.links[slot], checkpoint: .savedHere)
        } failed: { session, error in
            // The connection stays open: what it takes to the peer needs no room here, and deletions need little.
            guard ReplicationError(store: error).isOutOfSpace else { return session.fail(error) }
            session.logger.warning("the checkpoint of \(collection.name) is saved once there is room: \(error)")
            session.tell(session.links[slot], checkpoint: .notSavedHere)
        }
    }
}
