import Documents
import DocumentStore
import Interfaces

/// What a session reports to its owner about documents, and what it leaves behind.
final class SessionReports {
    private unowned let driver: SessionDriver
    private var documentEvents: [DocumentEvent] = []
    private(set) var refusals = PeerRefusals()

    init(_ driver: SessionDriver) { self.driver = driver }

    /// Acknowledgements not recorded yet only save a question next time: try to record them, then report the end.
    func noteLast(_ end: SessionEnd) {
        let marks = driver.links.compactMap { link -> (RemoteID, Collection, AcknowledgedVersions.Batch)? in
            guard let remote = link.remote, let batch = link.push?.takeUnrecorded() else { return nil }
            return (remote, link.collection, batch)
        }
        let observer = driver.observer
        guard !marks.isEmpty || driver.batchesUnderWay > 0 else { return observer.ended(end) }
        // The writer works in order: what it is storing is counted first.
        driver.database.write { transaction in
            for (remote, collection, batch) in marks { try transaction.markRemote(remote, collection, batch) }
        } completion: { [context = driver.transport.executionContext] _ in
            context.execute { observer.ended(end) }
        }
    }

    /// Counts and reports revisions that were being stored when the session ended. They will be offered again, and are here then.
    func countLate(_ revisions: [CheckedRevision], _ outcomes: [StoreOutcome], _ link: CollectionLink) {
        var (events, count) = ([DocumentEvent](), UInt64(0))
        for (revision, outcome) in zip(revisions, outcomes) {
            switch outcome {
            case .stored(.inserted):
                events.append(DocumentEvent(id: revision.id, collection: link.collection.name, direction: .pull, isDeleted: revision.isDeleted))
                count += 1
            // Reported once it is decided.
            case .stored(.insertedConflict): count += 1
            default: break
            }
        }
        if count > 0 { driver.counters.update { [count] in $0.pulled += count } }
        if !events.isEmpty { driver.observer.documents(events) }
    }

    /// Reports what the peer does not let us do, if that changed.
    func reportRefusals() {
        guard !driver.isPassive else { return }
        var now = PeerRefusals()
        for link in driver.links {
            now.push = now.push ?? link.push?.barrier.refusal
            now.checkpoint = now.checkpoint ?? link.checkpoint?.refusal
            now.space = now.space ?? link.pull.spaceWait?.error
        }
        guard now != refusals else { return }
        if let error = now.push, refusals.push == nil { driver.logger.warning("the peer accepts no writes from us; pulling continues: \(error.sentence)") }
        if let error = now.space, refusals.space == nil { driver.logger.warning("the pull waits for room; pushing continues: \(error.message)") }
        refusals = now
        driver.observer.refusals(now)
    }

    /// Reports that the peer is in an older state: nothing else tells an operator that it was restored from a backup.
    func report(_ loss: CheckpointBody.PeerLoss, of link: CollectionLink, after sequence: UInt64) {
        let what =
            switch loss {
            case .missing: "the remote has lost its checkpoint of \(link.collection.name): everything is compared again"
            case .wentBack:
                "the remote's checkpoint of \(link.collection.name) went back: everything after sequence \(sequence) here is compared again"
            }
        let message = what + "; it was restored from a backup or recreated, or it removed what it kept for a replicator that it had not seen for a long time"
        driver.logger.warning("\(message)")
        driver.observer.remoteWentBack(message, link.collection.name)
    }

    func report(_ event: DocumentEvent) {
        driver.dialect.wire?.note(event)
        documentEvents.append(event)
        if documentEvents.count >= DriverBounds.documentEvents { flushDocumentEvents() }
    }

    func flushDocumentEvents() {
        guard !documentEvents.isEmpty else { return }
        let events = documentEvents
        documentEvents = []
        driver.observer.documents(events)
    }
}
