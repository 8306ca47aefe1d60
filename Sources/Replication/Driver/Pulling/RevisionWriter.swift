import Documents
import DocumentStore
import Encodings
import Environment
import Interfaces

/// Stores what a peer sent, provided that the peer may see the documents it changes.
struct RevisionWriter {
    let driver: SessionDriver

    /// Stores a batch. The store creates a row from a large body, which takes the same size again, and once more for the row it replaces: so a part
    /// of the budget is reserved for that, waiting if necessary.
    func store(
        _ batch: BatchID, _ revisions: [StorableRevision], _ conflicts: ConflictHandling, settlesHeld: Bool, _ link: CollectionLink
    ) {
        let large = revisions.reduce(0) { $1.revision.body.count > DriverBounds.smallBodyBytes ? $0 + 2 * $1.revision.body.count : $0 }
        var storing = RevisionStoring(
            collection: link.collection, remote: link.remote, conflicts: conflicts, settlesHeld: settlesHeld,
            peerHasOne: driver.dialect.traits.peerHasOne, naming: driver.naming, takesWhatFits: true)
        storing.peer = driver.role.describePeer(driver.transport.peerDescription)
        for each in revisions where !each.revision.isDeleted && link.push?.fetchedDeletions.take(each.revision.id) == true {
            storing.deletionsUnderWay.insert(each.revision.id)
        }
        let slot = link.slot
        senderView(of: revisions.map(\.revision), link) { [storing] driver, sender in
            var bounded = storing
            bounded.sender = sender
            driver.writing.store(batch, revisions, bounded, slot, large: large)
        } failed: { $0.writing.notStored(batch, revisions.count, slot, $1) }
    }

    func notStored(_ batch: BatchID, _ count: Int, _ slot: Int, _ error: any Error) {
        driver.log(error, "not stored, \(Plural.count(count, "revision")): \(error)")
        driver.tell(driver.links[slot], pull: .insertion(.failed(batch, error)))
    }

    /// What the peer may see of the documents it changes; nil if it may see all of them.
    func senderView(
        of revisions: [CheckedRevision], _ link: CollectionLink, then: @escaping @Sendable (SessionDriver, SenderView?) -> Void,
        failed: @escaping @Sendable (SessionDriver, any Error) -> Void
    ) {
        guard case .passive(let configuration) = driver.role, driver.channelPeer != nil || link.pushFilter != nil else { return then(driver, nil) }
        let remote = driver.transport.peerDescription
        let slot = link.slot
        driver.service.view(link) { driver, view in
            driver.attempt { try await view.sender(of: revisions, configuration, remote: remote) } then: { driver, sender in
                var sender = sender
                for revision in revisions where sender.exchanged[revision.id] == nil {
                    sender.exchanged[revision.id] = driver.links[slot].exchanged.version(of: revision.id)
                }
                then(driver, sender)
            } failed: { failed($0, $1) }
        } failed: { failed($0, $1) }
    }

    private func store(_ batch: BatchID, _ revisions: [StorableRevision], _ storing: RevisionStoring, _ slot: Int, large: Int) {
        guard large > 0 else { return writeBatch(batch, revisions, storing, slot, Optional.none) }
        let memory = driver.memory
        driver.ask { await memory.reserve(min(large, memory.workLimit)) } then: { $0.writing.writeBatch(batch, revisions, storing, slot, $1) }
    }

    private func writeBatch(
        _ batch: BatchID, _ revisions: [StorableRevision], _ storing: RevisionStoring, _ slot: Int, _ reservation: MemoryBudget.Reservation?
    ) {
        driver.batchesUnderWay += 1
        driver.write { transaction in try withExtendedLifetime(reservation) { try storing.store(revisions, transaction) } } then: {
            $0.batchesUnderWay -= 1
            $0.deltas.noteExchanged(revisions, $1, $0.links[slot])
            $0.links[slot].marks.note(revisions.lazy.filter { !$0.revision.mayBeLostAtPeer }.map(\.revision.id))
            $0.links[slot].marks.doubt(revisions.lazy.filter(\.revision.mayBeLostAtPeer).map(\.revision.id))
            $0.dialect.stored(slot, revisions, $1)
            $0.tell($0.links[slot], pull: .insertion(.stored(batch, $1)))
        } failed: {
            $0.batchesUnderWay -= 1
            $0.writing.notStored(batch, revisions.count, slot, $1)
        } late: { $0.reports.countLate(revisions.map(\.revision), $1, $0.links[slot]) }
    }
}
