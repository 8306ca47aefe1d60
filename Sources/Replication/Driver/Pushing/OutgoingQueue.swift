import DocumentStore

/// Makes messages of what is to go out.
final class OutgoingQueue {
    private unowned let session: SessionDriver
    /// Those of collections that go first stand first.
    private var waiting: [(priority: Int, revisions: OutgoingRevisions)] = []
    /// Some collection goes before another.
    var isRanked = false

    init(_ session: SessionDriver) { self.session = session }

    /// Of those that wait, beside what the push holds.
    var bytes: Int { waiting.reduce(0) { $0 + $1.revisions.bytes } }
    var count: Int { waiting.reduce(0) { $0 + $1.revisions.count } }

    func append(_ revision: OutgoingRevisions.Revision) {
        let priority = session.links[revision.slot].priority
        let place = waiting.firstIndex { $0.priority <= priority } ?? waiting.count
        if place == waiting.count || waiting[place].priority < priority { waiting.insert((priority, OutgoingRevisions()), at: place) }
        waiting[place].revisions.append(revision)
    }

    private func next() -> OutgoingRevisions.Revision? {
        guard let place = waiting.firstIndex(where: { $0.revisions.count > 0 }) else { return nil }
        return waiting[place].revisions.next()
    }

    /// The push that they belong to is over.
    func remove(slot: Int) {
        for place in waiting.indices { waiting[place].revisions.remove(slot: slot) }
    }

    func end() { waiting = [] }

    /// The next message is made when no more than this is left of those before it. What a session holds is known to the others after its turn.
    private static let queueBytes = 1 << 20
    /// The same while memory is short: one message is always on its way.
    private static let shortQueueBytes = 16 << 10
    /// The same where a collection goes before another: what comes first waits for no more than this.
    private static let rankedQueueBytes = 64 << 10

    /// Makes messages of revisions, as many as there is room for. What the peer takes of them makes room for the next.
    func putRevisions() {
        guard count > 0 else { return }
        let usual = isRanked ? Self.rankedQueueBytes : Self.queueBytes
        let most = session.accounts.standing == .crowded || session.memory.isShort ? Self.shortQueueBytes : usual
        while !session.hasEnded, session.dialect.queuedBytes < most, let revision = next() {
            let link = session.links[revision.slot]
            if link.generation == revision.generation, link.push != nil { session.dialect.send(revision.slot, revision.document, delta: revision.delta) }
        }
    }
}
