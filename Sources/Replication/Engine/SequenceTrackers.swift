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
///
/// Only rows that are open are kept. Of those that are done behind an open one the last is all that is ever said, so a row that stays open
/// costs no more for what comes behind it.
public struct RemoteSequenceTracker: Sendable {
    private struct Row {
        let sequence: RemoteSequence
        /// The last of the rows that are done between this one and the next open one.
        var doneBehind: RemoteSequence?
        /// The places of the open rows around it; ``none`` where there is none.
        var before: Int
        var after = RemoteSequenceTracker.none
        /// It stays open, whatever comes.
        var isLeft = false
        /// How many rows are done between this one and the next open one.
        var doneCount: UInt32 = 0
    }

    private static let none = -1
    /// Rows that are dealt with and offered again all the same by another connection: done behind an open one, or left open.
    private(set) var offeredAgain: UInt64 = 0
    /// Rows that are open, at places that those which are done leave to others.
    private var rows: [Row] = []
    private var free: [Int] = []
    private var places: [RemoteSequence: Int] = [:]
    private var last = none
    private var reached: RemoteSequence?
    /// What open rows hold in memory.
    private(set) var bytes = 0

    public init(from start: RemoteSequence?) { reached = start }

    /// A row of the peer's feed arrived.
    ///
    /// - Returns: false for one that is open already: it counts once; else the first one would stay open for ever.
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

    /// The row's revision is durable, or was not wanted. False for a sequence that is not outstanding, or is left open.
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

    /// The row stays open for good: the peer has to offer it again, on another connection. Of those that lie side by side the first is kept,
    /// so that any number of them takes the room of one.
    public mutating func leave(_ sequence: RemoteSequence) {
        guard let place = places[sequence], !rows[place].isLeft else { return }
        rows[place].isLeft = true
        offeredAgain += 1
        join(rows[place].after)
        join(place)
    }

    /// Whether the row stays open for good.
    public func isLeft(_ sequence: RemoteSequence) -> Bool { places[sequence].map { rows[$0].isLeft } ?? false }

    /// Behind a row that stays open another one says nothing more.
    private mutating func join(_ place: Int) {
        guard place != Self.none, rows[place].isLeft, rows[place].before != Self.none, rows[rows[place].before].isLeft else { return }
        places[rows[place].sequence] = nil
        remove(place)
    }

    private mutating func remove(_ place: Int) {
        let row = rows[place]
        release(place)
        if row.isLeft { offeredAgain -= 1 }
        bytes -= Self.bytes(row.sequence) + (row.doneBehind.map(Self.bytesBehind) ?? 0)
        let through = row.doneBehind ?? row.sequence
        if row.after == Self.none { last = row.before } else { rows[row.after].before = row.before }
        guard row.before != Self.none else {
            offeredAgain -= UInt64(row.doneCount)
            return reached = through
        }
        rows[row.before].doneCount &+= row.doneCount &+ 1
        offeredAgain += 1
        bytes += Self.bytesBehind(through) - (rows[row.before].doneBehind.map(Self.bytesBehind) ?? 0)
        rows[row.before].doneBehind = through
        rows[row.before].after = row.after
    }

    private mutating func release(_ place: Int) {
        rows[place].doneBehind = nil
        rows[place].doneCount = 0
        if places.isEmpty, rows.count > Self.keptPlaces { (rows, free) = ([], []) } else { free.append(place) }
    }

    /// Places kept for reuse once no row is open.
    private static let keptPlaces = 1_024

    private static func bytes(_ sequence: RemoteSequence) -> Int { HeldBytes.openRow + HeldBytes.text(sequence.json) }
    private static func bytesBehind(_ sequence: RemoteSequence) -> Int { HeldBytes.text(sequence.json) }

    /// The last sequence before the earliest unfinished one.
    public var completedThrough: RemoteSequence? { reached }
    public var outstanding: Int { places.count }
}
