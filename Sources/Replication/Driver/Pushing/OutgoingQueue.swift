import DocumentStore

/// Turns outgoing revisions into messages.
final class OutgoingQueue {
    private unowned let driver: SessionDriver
    /// Sorted by priority of the collections.
    private var waiting: [(priority: Int, revisions: OutgoingRevisions)] = []
    /// The collections have different priorities.
    var hasPriorities = false

    init(_ driver: SessionDriver) { self.driver = driver }

    /// Size of the waiting revisions beyond what the push holds, in bytes.
    var bytes: Int { waiting.reduce(0) { $0 + $1.revisions.bytes } }
    var count: Int { waiting.reduce(0) { $0 + $1.revisions.count } }

    func append(_ revision: OutgoingRevisions.Revision) {
        let priority = driver.links[revision.slot].priority
        let place = waiting.firstIndex { $0.priority <= priority } ?? waiting.count
        if place == waiting.count || waiting[place].priority < priority { waiting.insert((priority, OutgoingRevisions()), at: place) }
        waiting[place].revisions.append(revision)
    }

    private func next() -> OutgoingRevisions.Revision? {
        guard let place = waiting.firstIndex(where: { $0.revisions.count > 0 }) else { return nil }
        return waiting[place].revisions.next()
    }

    /// The push that they belong to has ended.
    func remove(slot: Int) {
        for place in waiting.indices { waiting[place].revisions.remove(slot: slot) }
    }

    func end() { waiting = [] }

    /// Turns revisions into messages until the send queue is full; it empties as the peer reads.
    func putRevisions() {
        guard count > 0 else { return }
        let usual = hasPriorities ? DriverBounds.rankedQueueBytes : DriverBounds.queueBytes
        let most = driver.accounts.standing == .crowded || driver.memory.isShort ? DriverBounds.shortQueueBytes : usual
        while !driver.hasEnded, driver.dialect.queuedBytes < most, let revision = next() {
            let link = driver.links[revision.slot]
            guard link.generation == revision.generation, link.push != nil else { continue }
            driver.dialect.send(revision.slot, revision.document, delta: revision.delta)
            if driver.dialect.traits.messagesHoldBodies, revision.document.body.count > DriverBounds.smallBodyBytes {
                driver.tell(link, push: .messageMade(revision.document.id))
            }
        }
    }
}
