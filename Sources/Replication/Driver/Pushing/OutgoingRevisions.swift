import DocumentStore

/// Revisions that wait to become messages. A message copies the body and the history that the push holds; if all were created in one turn, a peer
/// that wants everything at once and reads nothing would double that memory.
struct OutgoingRevisions {
    struct Revision {
        var slot: Int
        var generation: Int
        var document: OutgoingDocument
        var delta: [UInt8]?

        /// Size beyond what the push holds, in bytes.
        var bytes: Int { (delta?.count ?? 0) + (document.wireBody?.count ?? 0) }
    }

    private var waiting: [Revision?] = []
    private var head = 0
    /// Size of all of them beyond what the push holds, in bytes.
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
            waiting.removeAll(keepingCapacity: head <= EngineBounds.takenSlots)
            head = 0
        } else if head > EngineBounds.takenSlots, head * 2 > waiting.count {
            waiting.removeFirst(head)
            head = 0
        }
        bytes -= revision?.bytes ?? 0
        return revision
    }

    /// The push that they belong to has ended.
    mutating func remove(slot: Int) {
        waiting = waiting[head...].filter { $0?.slot != slot }
        head = 0
        bytes = waiting.reduce(0) { $0 + ($1?.bytes ?? 0) }
    }
}
