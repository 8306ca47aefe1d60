import DocumentStore
import Environment

/// Revisions that are to become messages. A message holds the body and the history once more, beside what the push holds of them; a peer that wants
/// everything at once, and reads nothing, would have all of them made in one turn.
struct OutgoingRevisions {
    struct Revision {
        var slot: Int
        var generation: Int
        var document: OutgoingDocument
        var delta: [UInt8]?

        /// Beside what the push holds.
        var bytes: Int { (delta?.count ?? 0) + (document.travellingBody?.count ?? 0) }
    }

    private var waiting: [Revision?] = []
    private var head = 0
    /// What they hold beside what the push does.
    private(set) var bytes = 0

    var count: Int { waiting.count - head }

    mutating func append(_ revision: Revision) {
        waiting.append(revision)
        bytes += revision.bytes
    }

    mutating func next() -> Revision? {
        guard head < waiting.count else { return nil }
        let revision = waiting[head].take()
        head += 1
        if head == waiting.count {
            waiting.removeAll(keepingCapacity: head <= 1_024)
            head = 0
        } else if head > 1_024, head * 2 > waiting.count {
            waiting.removeFirst(head)
            head = 0
        }
        bytes -= revision?.bytes ?? 0
        return revision
    }

    /// The push that they belong to is over.
    mutating func remove(slot: Int) {
        waiting = waiting[head...].filter { $0?.slot != slot }
        head = 0
        bytes = waiting.reduce(0) { $0 + ($1?.bytes ?? 0) }
    }
}

/// Makes messages of what is to go out.
final class MessageMaking {
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
