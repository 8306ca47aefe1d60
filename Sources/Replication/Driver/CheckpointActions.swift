import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces
import NIOCore

/// Carries out the actions of the checkpoint machine: at the peer, which keeps a copy, and in the store.
struct CheckpointActions {
    let driver: SessionDriver

    func perform(_ action: CheckpointMachine.Action, _ link: CollectionLink) {
        let slot = link.slot
        guard let id = link.checkpoint?.id else { return }
        switch action {
        case .startTimer(let intervals):
            driver.later(milliseconds: intervals * driver.limits.checkpointIntervalSeconds * 1_000) { $0.tell($0.links[slot], checkpoint: .timerElapsed) }
        case .note:
            link.coverCounts()
            if link.push != nil { driver.tell(link, push: .recordNow) }
            driver.notifyWhenNoted(link)
        case .saveAtPeer(let body, let token):
            link.checkpointBytes = driver.dialect.checkpointText(body, time: driver.environment.time.wallSeconds())
            driver.dialect.saveCheckpoint(slot, id: id, body: link.checkpointBytes, token: token)
        case .fetchToken: driver.dialect.fetchCheckpoint(slot, id: id)
        case .saveHere(let body): saveHere(link.checkpointBytes, body, id, link)
        case .saveHereOnly(let body, let token):
            saveHere(CheckpointBody.hereOnly(driver.dialect.checkpointText(body, time: driver.environment.time.wallSeconds()), besides: token), body, id, link)
        case .warn(let message): driver.logger.warning("\(message)")
        case .fail(let error):
            driver.savedNoCheckpoint = link.checkpoint?.hasSaved != true
            driver.fail(error)
        }
    }

    private func saveHere(_ bytes: [UInt8], _ body: CheckpointBody, _ id: String, _ link: CollectionLink) {
        let (slot, collection) = (link.slot, link.collection)
        var bytes = body.local < link.comparesThrough ? CheckpointBody.comparing(bytes, through: link.comparesThrough) : bytes
        if case .active(let active) = driver.role, let login = active.replicator.login { bytes = CheckpointBody.made(as: login, bytes) }
        let copy = bytes
        driver.write { _ = try $0.setCheckpoint(id: id, collection: collection, body: copy) } then: { driver, _ in
            let isAtPeer = driver.links[slot].checkpoint?.refusal == nil
            if isAtPeer { driver.observer.checkpointSaved(collection.name) }
            driver.links[slot].checkpointSaved()
            driver.logger.debug("checkpoint of \(collection.name) saved\(isAtPeer ? "" : " here only"): \(body.words)")
            driver.tell(driver.links[slot], checkpoint: .savedHere)
        } failed: { driver, error in
            // The connection stays open: what it takes to the peer needs no room here, and deletions need little.
            guard ReplicationError(store: error).isOutOfSpace else { return driver.fail(error) }
            driver.logger.warning("the checkpoint of \(collection.name) is saved once there is room: \(error)")
            driver.tell(driver.links[slot], checkpoint: .notSavedHere)
        }
    }
}
