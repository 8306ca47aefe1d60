/// Follows which local sequences are pushed, and yields the highest one below which nothing is outstanding.
public struct LocalSequenceTracker: Sendable {
    private var pending: Set<UInt64> = []
    /// Sequences in the order read, for finding the smallest pending one without a search.
    private var order: [UInt64] = []
    private var head = 0
    private var highest: UInt64

    public init(from start: UInt64) { highest = start }

    /// The document at this sequence was read and is on its way. That says nothing of the sequences before it: one that is read by
    /// itself may lie beyond what was looked at.
    public mutating func begin(_ sequence: UInt64) {
        guard pending.insert(sequence).inserted else { return }
        if let last = order.last, last > sequence {
            // A document taken up again after a refusal: rare, so the order is mended here instead of kept sorted.
            let at = order[head...].firstIndex { $0 > sequence } ?? order.endIndex
            order.insert(sequence, at: at)
        } else {
            order.append(sequence)
        }
    }

    /// The peer has it, or it needs no push.
    public mutating func complete(_ sequence: UInt64) {
        pending.remove(sequence)
        while head < order.count, !pending.contains(order[head]) { head += 1 }
        if head > 4096, head * 2 > order.count {
            order.removeFirst(head)
            head = 0
        } else if order.count - head > 4096, order.count - head > pending.count * 4 {
            // One that stays open for long must not keep a place for everything behind it.
            order = order[head...].filter { pending.contains($0) }
            head = 0
        }
    }

    /// Everything up to this sequence was looked at.
    public mutating func scanned(through sequence: UInt64) { highest = max(highest, sequence) }

    /// Every sequence up to here is done.
    public var completedThrough: UInt64 { head < order.count ? min(order[head] - 1, highest) : highest }
    public var pendingCount: Int { pending.count }
    public func isPending(_ sequence: UInt64) -> Bool { pending.contains(sequence) }
}

/// Follows a peer's sequences, which are opaque: only their order of arrival counts.
public struct RemoteSequenceTracker: Sendable {
    private var rows: [(sequence: RemoteSequence, isDone: Bool)] = []
    private var head = 0
    private var first = 0
    private var position: [RemoteSequence: Int] = [:]
    private var reached: RemoteSequence?

    public init(from start: RemoteSequence?) { reached = start }

    /// A row of the peer's feed arrived.
    public mutating func begin(_ sequence: RemoteSequence) {
        // A row that is told twice counts once; else the first one would stay open for ever.
        guard position[sequence] == nil else { return }
        position[sequence] = first + rows.count
        rows.append((sequence, false))
    }

    /// The row's revision is durable, or was not wanted. False for a sequence that is not outstanding.
    @discardableResult
    public mutating func complete(_ sequence: RemoteSequence) -> Bool {
        guard let at = position.removeValue(forKey: sequence) else { return false }
        rows[at - first].isDone = true
        while head < rows.count, rows[head].isDone {
            reached = rows[head].sequence
            head += 1
        }
        if head > 4096, head * 2 > rows.count {
            rows.removeFirst(head)
            first += head
            head = 0
        }
        return true
    }

    /// The last sequence before the earliest unfinished one.
    public var completedThrough: RemoteSequence? { reached }
    public var outstanding: Int { position.count }
}
