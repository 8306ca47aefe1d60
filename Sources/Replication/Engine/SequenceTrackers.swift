/// Tracks which local sequences are pushed, and yields the highest one up to which nothing is outstanding.
public struct LocalSequenceTracker: Sendable {
    private var pending: Set<UInt64> = []
    /// Sequences in reading order, to find the smallest pending one without a search.
    private var order: [UInt64] = []
    private var head = 0
    private var highest: UInt64
    /// Sequences that are complete and will nevertheless be read again on another connection: they come after a pending one.
    private(set) var readAgain = 0
    /// How many of them were removed from ``order`` after each pending one.
    private var removedBehind: [UInt64: Int] = [:]

    public init(from start: UInt64) { highest = start }

    /// The document at this sequence was read and is under way. This says nothing about earlier sequences: a document that is read on its own may lie
    /// beyond what has been scanned.
    public mutating func begin(_ sequence: UInt64) {
        guard pending.insert(sequence).inserted else { return }
        if let last = order.last, last > sequence {
            // A document retried after a refusal: rare, so it is inserted here instead of keeping a sorted structure.
            let at = order[head...].firstIndex { $0 > sequence } ?? order.endIndex
            order.insert(sequence, at: at)
        } else {
            order.append(sequence)
        }
    }

    /// The peer has it, or it needs no push.
    public mutating func complete(_ sequence: UInt64) {
        if pending.remove(sequence) != nil { readAgain += 1 }
        while head < order.count, !pending.contains(order[head]) {
            readAgain -= 1 + (removedBehind.isEmpty ? 0 : removedBehind.removeValue(forKey: order[head]) ?? 0)
            head += 1
        }
        if head > EngineBounds.takenSequences, head * 2 > order.count {
            order.removeFirst(head)
            head = 0
        } else if order.count - head > EngineBounds.takenSequences, order.count - head > pending.count * 4 {
            // A sequence that stays open for long must not reserve a slot for everything after it.
            var before = order[head]
            order = order[head...].filter { sequence in
                if pending.contains(sequence) {
                    before = sequence
                    return true
                }
                removedBehind[before, default: 0] += 1 + (removedBehind.removeValue(forKey: sequence) ?? 0)
                return false
            }
            head = 0
        }
    }

    /// Everything up to this sequence was examined.
    public mutating func scanned(through sequence: UInt64) { highest = max(highest, sequence) }

    /// Every sequence up to this one is complete.
    public var completedThrough: UInt64 { head < order.count ? min(order[head] - 1, highest) : highest }
    // For tests.
    var pendingCount: Int { pending.count }
    func isPending(_ sequence: UInt64) -> Bool { pending.contains(sequence) }
}

/// Tracks a peer's sequences, which are opaque: only their order of arrival counts.
///
/// Only open rows are kept. Of the completed rows after an open one, only the last is ever needed, so a row that stays open costs no more when others
/// follow.
public struct RemoteSequenceTracker: Sendable {
    private struct Row {
        let sequence: RemoteSequence
        /// The last of the completed rows between this one and the next open one.
        var completedBehind: RemoteSequence?
        /// The slots of the neighbouring open rows; ``none`` if there is none.
        var before: Int
        var after = RemoteSequenceTracker.none
        /// It stays open whatever happens.
        var isLeft = false
        /// The number of completed rows between this one and the next open one.
        var doneCount: UInt32 = 0
    }

    private static let none = -1
    /// Rows that are dealt with and will nevertheless be offered again on another connection: completed after an open one, or left open.
    private(set) var offeredAgain: UInt64 = 0
    /// Open rows; slots of completed rows are reused.
    private var rows: [Row] = []
    private var free: [Int] = []
    private var places: [RemoteSequence: Int] = [:]
    private var last = none
    private var reached: RemoteSequence?
    /// Memory held by open rows, in bytes.
    private(set) var bytes = 0

    public init(from start: RemoteSequence?) { reached = start }

    /// A row of the peer's feed arrived.
    ///
    /// - Returns: false for a row that is already open. It counts once; otherwise the first one would stay open forever.
    @discardableResult
    public mutating func begin(_ sequence: RemoteSequence) -> Bool {
        let place = free.last ?? rows.count
        if let taken = places.updateValue(place, forKey: sequence) {
            places[sequence] = taken
            return false
        }
        let row = Row(sequence: sequence, before: last)
        if free.popLast() == nil { rows.append(row) } else { rows[place] = row }
        if last != Self.none { rows[last].after = place }
        last = place
        bytes += Self.bytes(sequence)
        return true
    }

    /// The row's revision is durable, or was not wanted. False for a sequence that is not outstanding, or that is left open.
    @discardableResult
    public mutating func complete(_ sequence: RemoteSequence) -> Bool {
        guard let place = places.removeValue(forKey: sequence) else { return false }
        let (isLeft, after) = (rows[place].isLeft, rows[place].after)
        if isLeft {
            places[sequence] = place
            return false
        }
        remove(place)
        join(after)
        return true
    }

    /// Leaves the row open for the rest of the connection: the peer has to offer it again on another one. Of adjacent such rows only the first is
    /// kept, so that any number of them takes the space of one.
    public mutating func leave(_ sequence: RemoteSequence) {
        guard let place = places[sequence], !rows[place].isLeft else { return }
        rows[place].isLeft = true
        offeredAgain += 1
        join(rows[place].after)
        join(place)
    }

    /// Whether the row was left open by ``leave(_:)``.
    public func isLeft(_ sequence: RemoteSequence) -> Bool { places[sequence].map { rows[$0].isLeft } ?? false }

    /// A row left open right after another one adds no information.
    private mutating func join(_ place: Int) {
        guard place != Self.none, rows[place].isLeft, rows[place].before != Self.none, rows[rows[place].before].isLeft else { return }
        places[rows[place].sequence] = nil
        remove(place)
    }

    private mutating func remove(_ place: Int) {
        let row = rows[place]
        release(place)
        if row.isLeft { offeredAgain -= 1 }
        bytes -= Self.bytes(row.sequence) + (row.completedBehind.map(Self.bytesBehind) ?? 0)
        let through = row.completedBehind ?? row.sequence
        if row.after == Self.none { last = row.before } else { rows[row.after].before = row.before }
        guard row.before != Self.none else {
            offeredAgain -= UInt64(row.doneCount)
            return reached = through
        }
        rows[row.before].doneCount &+= row.doneCount &+ 1
        offeredAgain += 1
        bytes += Self.bytesBehind(through) - (rows[row.before].completedBehind.map(Self.bytesBehind) ?? 0)
        rows[row.before].completedBehind = through
        rows[row.before].after = row.after
    }

    private mutating func release(_ place: Int) {
        rows[place].completedBehind = nil
        rows[place].doneCount = 0
        if places.isEmpty, rows.count > EngineBounds.spareSlots { (rows, free) = ([], []) } else { free.append(place) }
    }

    private static func bytes(_ sequence: RemoteSequence) -> Int { HeldBytes.openRow + sequence.heldBytes }
    private static func bytesBehind(_ sequence: RemoteSequence) -> Int { sequence.heldBytes }

    /// The last sequence before the earliest open one.
    public var completedThrough: RemoteSequence? { reached }
    /// Number of open rows. For tests.
    var outstanding: Int { places.count }
}
