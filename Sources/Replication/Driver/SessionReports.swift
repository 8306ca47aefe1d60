import Documents
import DocumentStore
import Interfaces

/// What a session tells its owner of documents, and what it leaves behind.
extension ReplicationSession {
    /// Acknowledgements that are not noted yet only save a question next time: try, then say that it is over.
    func noteLast(_ end: SessionEnd) {
        let marks = links.compactMap { link -> (RemoteID, Collection, AcknowledgedVersions.Batch)? in
            guard let remote = link.remote, let batch = link.push?.takeUnnoted() else { return nil }
            return (remote, link.collection, batch)
        }
        let observer = observer
        guard !marks.isEmpty else { return observer.ended(end) }
        database.write { transaction in
            for (remote, collection, batch) in marks { try transaction.markRemote(remote, collection, batch) }
        } completion: { _ in
            observer.ended(end)
        }
    }

    /// Says what the peer does not let us do, where that changed.
    func reportRefusals() {
        guard !isPassive else { return }
        var now = PeerRefusals()
        for link in links {
            now.push = now.push ?? link.push?.barrier.refusal
            now.checkpoint = now.checkpoint ?? link.checkpoint?.refusal
            now.room = now.room ?? link.pull.roomWait?.error
        }
        guard now != refusals else { return }
        if let error = now.push, refusals.push == nil { logger.warning("the peer accepts no writes from us; pulling continues: \(error.sentence)") }
        if let error = now.room, refusals.room == nil { logger.warning("the pull waits for room; pushing continues: \(error.message)") }
        refusals = now
        observer.refusals(now)
    }

    /// Says that the peer is not where it was: nobody else tells an operator that it was restored from a backup.
    func report(_ loss: CheckpointBody.PeerLoss, of link: CollectionLink, after sequence: UInt64) {
        let what =
            switch loss {
            case .missing: "the remote has lost its checkpoint of \(link.collection.name): everything is compared anew"
            case .wentBack:
                "the remote's checkpoint of \(link.collection.name) went back: everything after sequence \(sequence) here is compared anew"
            }
        let message = what + "; it was restored from a backup or made anew, or removed what it kept of a replicator that it had not seen for long"
        logger.warning("\(message)")
        observer.remoteWentBack(message, link.collection.name)
    }

    /// Fails the run because of the store or the peer: the connection is closed with a code that says whether to come back.
    func fail(_ error: any Error) {
        let failure = error as? ReplicationError ?? ReplicationError(store: error)
        log(error, "\(failure)")
        // What is wrong with a listener's own store is no reason for its peers to stop for good, as they do after 4002.
        let mayComeBack = failure.isTransient || isPassive && failure.domain == .store
        finish(error: failure, closeCode: mayComeBack ? 4001 : 4002, reason: failure.reasonForPeer)
    }

    func report(_ event: DocumentEvent) {
        documentEvents.append(noted(event))
        if documentEvents.count >= 100 { flushDocumentEvents() }
    }

    func flushDocumentEvents() {
        guard !documentEvents.isEmpty else { return }
        let events = documentEvents
        documentEvents = []
        observer.documents(events)
    }
}
