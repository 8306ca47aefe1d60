import DocumentStore

/// Makes messages of what is to go out.
final class OutgoingQueue {
    private unowned let session: SessionDriver
    private var waiting = OutgoingRevisions()

    init(_ session: SessionDriver) { self.session = session }

    /// Of those that wait, beside what the push holds.
    var bytes: Int { waiting.bytes }
    var count: Int { waiting.count }

    func append(_ revision: OutgoingRevisions.Revision) { waiting.append(revision) }

    /// The push that they belong to is over.
    func remove(slot: Int) { waiting.remove(slot: slot) }

    func end() { waiting = OutgoingRevisions() }

    /// The next message is made when no more than this is left of those before it. What a session holds is known to the others after its turn.
    private static let queueBytes = 1 << 20
    /// The same while memory is short: one message is always on its way.
    private static let shortQueueBytes = 16 << 10

    /// Makes messages of revisions, as many as there is room for. What the peer takes of them makes room for the next.
    func putRevisions() {
        guard waiting.count > 0 else { return }
        let most = session.accounts.standing == .crowded || session.memory.isShort ? Self.shortQueueBytes : Self.queueBytes
        while !session.hasEnded, session.dialect.queuedBytes < most, let revision = waiting.next() {
            let link = session.links[revision.slot]
            if link.generation == revision.generation, link.push != nil { session.dialect.send(revision.slot, revision.document, delta: revision.delta) }
        }
    }
}
