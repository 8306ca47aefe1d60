import Documents

/// Documents that the peer wants, in the order of its answers.
struct SendQueue {
    private var ids: [DocumentID] = []
    private var head = 0

    var count: Int { ids.count - head }

    mutating func append(_ id: DocumentID) { ids.append(id) }

    mutating func next() -> DocumentID? {
        guard head < ids.count else { return nil }
        defer {
            head += 1
            if head == ids.count {
                ids.removeAll(keepingCapacity: true)
                head = 0
            } else if head > EngineBounds.takenSlots, head * 2 > ids.count {
                ids.removeFirst(head)
                head = 0
            }
        }
        return ids[head]
    }
}
