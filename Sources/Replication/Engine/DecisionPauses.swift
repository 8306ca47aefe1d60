import Documents

/// Puts pauses between the decisions of a document that comes into conflict again and again, because others undo each result: resolvers that contradict each
/// other, or of which each makes something new. Otherwise it would go on as fast as the network allows.
struct DecisionPauses {
    /// Decisions of a document without a pause. Replicas in a ring may need dozens before all have the same revision, and each edit made meanwhile is one
    /// more.
    static let atOnce = 256
    /// With no more than these in each interval, a document is never paused.
    static let perInterval = 8
    static let intervalSeconds = 15
    /// The pauses last one interval, then two, four and eight.
    private static let steps = 4

    private struct Entry {
        /// Recent decisions; fewer as time passes.
        var decisions = 0
        /// How often the document was paused in a row.
        var step = 0
        /// Intervals until the end of the pause; nil while there is none.
        var left: Int?
        /// The peer has sent another revision meanwhile, which may be somebody's edit: the pause ends with the interval.
        var isAwaited = false
        /// Intervals without a decision.
        var quiet = 0
    }

    /// How many documents are paused at most. With more documents than this, those that are not paused are counted anew.
    private let limit: Int
    private var entries: [DocumentID: Entry] = [:]
    private(set) var paused = 0
    private var isTicking = false

    init(limit: Int) { self.limit = limit }

    /// When a conflict is decided.
    enum Turn: Equatable {
        case now
        /// After a pause that begins now.
        case after(seconds: Int)
        /// After the pause that is under way.
        case later
    }

    mutating func turn(of id: DocumentID) -> Turn {
        guard var entry = entries[id] else { return .now }
        if entry.left != nil {
            entries[id]?.isAwaited = true
            return .later
        }
        guard paused < limit, entry.step > 0 || entry.decisions >= Self.atOnce else { return .now }
        entry.step = min(entry.step + 1, Self.steps)
        let intervals = 1 << (entry.step - 1)
        (entry.left, entry.isAwaited, entry.quiet) = (intervals, false, 0)
        entries[id] = entry
        paused += 1
        return .after(seconds: intervals * Self.intervalSeconds)
    }

    /// Whether an interval is to be timed, which is then under way.
    mutating func startInterval() -> Bool {
        guard !isTicking, paused > 0 || entries.values.contains(where: { $0.step > 0 || $0.decisions >= Self.perInterval }) else { return false }
        isTicking = true
        return true
    }

    mutating func decided(_ id: DocumentID) {
        if entries.count >= limit, entries[id] == nil { entries = entries.filter { $0.value.left != nil } }
        entries[id, default: Entry()].decisions += 1
        entries[id]?.quiet = 0
    }

    /// An interval is over.
    /// - Returns: the documents whose pause is over, in ascending order.
    mutating func elapsed() -> [DocumentID] {
        isTicking = false
        var due: [DocumentID] = []
        for (id, entry) in entries {
            var entry = entry
            if let left = entry.left {
                entry.left = left > 1 && !entry.isAwaited ? left - 1 : nil
                if entry.left == nil { due.append(id) }
            } else {
                entry.decisions = max(0, entry.decisions - Self.perInterval)
                entry.quiet += 1
                if entry.quiet > 2 << entry.step { entry.step = 0 }
            }
            entries[id] = entry.step == 0 && entry.decisions == 0 && entry.left == nil ? nil : entry
        }
        paused -= due.count
        return due.sorted()
    }
}
