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
