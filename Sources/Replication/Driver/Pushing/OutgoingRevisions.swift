import DocumentStore

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
