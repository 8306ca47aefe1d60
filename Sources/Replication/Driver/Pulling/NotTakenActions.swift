import Documents
import DocumentStore
import Interfaces

/// Keeps the list of documents of the peer that cannot be stored here. What it writes precedes the checkpoint that passes them: the writer works in order.
extension PullActions {
    func note(_ refused: [NotTaken], _ link: CollectionLink) {
        guard let remote = link.remote else { return }
        link.mayHaveNotTaken = true
        link.notedNotTaken += 1
        let (collection, known, limit) = (link.collection, link.notTaken, driver.limits.notTakenDocuments)
        driver.write { try NotTakenDocuments.note(refused, limit: limit, known, remote, collection, $0) } then: { driver, beyond in
            guard beyond > 0 else { return }
            driver.logger.error("more documents of \(collection.name) cannot be stored here than the \(limit) that are listed (not_taken_documents)")
        }
    }

    /// These are not there any more.
    func forget(_ ids: [DocumentID], _ link: CollectionLink) {
        ifAnyAreListed(link) { try NotTakenDocuments.forget(ids, $0, $1, $2, $3) }
    }

    /// The peer announces these revisions.
    func announced(_ offers: [RevisionOffer], _ link: CollectionLink) {
        ifAnyAreListed(link) { try NotTakenDocuments.announced(offers, $0, $1, $2, $3) }
    }

    /// Changes the list, unless it is empty: nothing is written then.
    private func ifAnyAreListed(
        _ link: CollectionLink, _ change: @escaping @Sendable (RefusalCount, RemoteID, Collection, WriteTransaction) throws -> Void
    ) {
        guard let remote = link.remote, link.mayHaveNotTaken != false else { return }
        let (slot, collection, known, noted) = (link.slot, link.collection, link.notTaken, link.notedNotTaken)
        // A one-shot replication does not end before that is recorded.
        driver.pendingSetUp += 1
        if link.mayHaveNotTaken == nil {
            return driver.read { try NotTakenDocuments.count(known, remote, collection, $0) > 0 } then: { (driver, isAny: Bool) in
                driver.pendingSetUp -= 1
                let link = driver.links[slot]
                if link.notedNotTaken == noted { link.mayHaveNotTaken = isAny }
                driver.pulls.ifAnyAreListed(link, change)
            }
        }
        driver.write { try change(known, remote, collection, $0) } then: { driver, _ in driver.pendingSetUp -= 1 }
    }
}
