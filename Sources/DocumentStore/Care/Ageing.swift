import Documents

/// Records roughly how old documents are: each mark says which sequence was the last one at which time. A document with a smaller sequence has not
/// changed since. So documents carry no timestamp, and none has to be written for them.
struct AgeMarks: Equatable {
    /// `age_marks`: number of marks per collection; the intervals between them follow from it.
    static let maximum = 100

    /// Ascending by time and by sequence.
    private(set) var marks: [(time: Int64, sequence: SequenceNumber)] = []

    static func == (left: Self, right: Self) -> Bool { left.text == right.text }

    init() {}

    /// `TIME SEQUENCE TIME SEQUENCE …`
    init(_ text: String) {
        let numbers = text.split(separator: " ").compactMap { Int64($0) }
        for index in stride(from: 0, to: numbers.count - 1, by: 2) {
            // With a time before all others, the difference would overflow.
            marks.append((max(numbers[index], Int64.min / 4), SequenceNumber(clamping: numbers[index + 1])))
        }
    }

    var text: String { marks.map { "\($0.time) \($0.sequence)" }.joined(separator: " ") }

    /// Records that `sequence` is currently the last one.
    ///
    /// - Parameter age: the greatest age that will be asked for.
    mutating func note(_ sequence: SequenceNumber, now: Int64, age: Int64) {
        // Marks made while the clock was wrong.
        marks.removeAll { $0.time > now }
        guard now - (marks.last?.time ?? .min / 2) >= max(1, age / Int64(Self.maximum)) else { return }
        marks.append((now, sequence))
        // Of the marks that are old enough, only the newest is needed.
        if let last = marks.lastIndex(where: { now - $0.time >= age }), last > 0 { marks.removeFirst(last) }
        if marks.count > 2 * Self.maximum { marks.removeFirst(marks.count - 2 * Self.maximum) }
    }

    /// Records that `sequence` is currently the last one. No maximum age limits these marks, so they are thinned out over time: an age is known to
    /// within a sixth of it.
    ///
    /// - Returns: whether anything has changed since the last mark.
    mutating func note(_ sequence: SequenceNumber, now: Int64) -> Bool {
        // Marks made while the clock was wrong, or of changes that a restored backup does not contain.
        marks.removeAll { $0.time > now || $0.sequence > sequence }
        guard sequence > marks.last?.sequence ?? 0 else { return false }
        marks.append((now, sequence))
        var thinned: [(time: Int64, sequence: SequenceNumber)] = []
        for (index, mark) in marks.enumerated() {
            if let before = thinned.last, index + 1 < marks.count, marks[index + 1].time - before.time < (now - marks[index + 1].time) / 6 { continue }
            thinned.append(mark)
        }
        marks = Array(thinned.suffix(2 * Self.maximum))
        return true
    }

    /// The purpose of the marks. Each has its own: those for an age of months are days apart.
    enum Kind: String, CaseIterable {
        case documents = ""
        case tombstones = "_deleted"
        /// For documents that wait to be pushed: close together for recent times, and further apart for the past.
        case waiting = "_waiting"

        func key(_ collection: Collection) -> String { "ages_\(collection.id)\(rawValue)" }
    }

    /// The first mark by which this sequence existed; nil if there is none.
    func marked(_ sequence: SequenceNumber) -> Int64? { marks.first { $0.sequence >= sequence }?.time }

    /// Documents with this sequence or a smaller one have not changed for that long; 0 if nothing is as old.
    func sequence(olderThan age: Int64, now: Int64) -> SequenceNumber { marks.last { now - $0.time >= age }?.sequence ?? 0 }
}

extension Database {
    /// Records how far a collection is, and returns up to which sequences documents and tombstones are older than the given ages.
    ///
    /// - Parameters:
    ///   - documents: the age in seconds; nil if not needed.
    ///   - tombstones: the age in seconds; nil if not needed.
    ///   - now: seconds since 1970.
    /// - Returns: 0 where nothing is as old.
    public func sequences(
        olderThan documents: Int64?, tombstones: Int64?, in collection: Collection, now: Int64
    ) async throws -> (documents: SequenceNumber, tombstones: SequenceNumber) {
        (
            try await sequence(olderThan: documents, .documents, in: collection, now: now),
            try await sequence(olderThan: tombstones, .tombstones, in: collection, now: now)
        )
    }

    private func sequence(olderThan age: Int64?, _ kind: AgeMarks.Kind, in collection: Collection, now: Int64) async throws -> SequenceNumber {
        guard let age else { return 0 }
        let key = kind.key(collection)
        let (own, before, last) = try await read { transaction in
            let own = try transaction.property(key)
            // Earlier versions shared the marks between both.
            let before = try own ?? transaction.property(AgeMarks.Kind.documents.key(collection))
            return (own, before ?? "", try transaction.lastSequence(collection))
        }
        var marks = AgeMarks(before)
        marks.note(last, now: now, age: age)
        let text = marks.text
        if text != own { try await write { try $0.setProperty(key, text) } }
        return marks.sequence(olderThan: age, now: now)
    }

    /// Records how far a collection is, while documents in it wait to be pushed.
    ///
    /// - Parameter now: seconds since 1970.
    public func noteWaiting(in collection: Collection, now: Int64) async throws {
        let key = AgeMarks.Kind.waiting.key(collection)
        let (before, last) = try await read { (try $0.property(key) ?? "", try $0.lastSequence(collection)) }
        var marks = AgeMarks(before)
        guard marks.note(last, now: now) else { return }
        let text = marks.text
        try await write { try $0.setProperty(key, text) }
    }

    /// Purges documents, each only if it has not changed since it was read.
    ///
    /// - Returns: the number of documents purged.
    public func purge(_ rows: [ChangeRow], in collection: Collection) async throws -> Int {
        try await write { transaction in
            var count = 0
            for row in rows {
                guard let current = try transaction.document(collection, row.id), current.sequence == row.sequence, !current.hasConflict else { continue }
                if try transaction.purge(collection, row.id) {
                    try transaction.noteExpired(collection, row.id, at: transaction.state.now, by: row.isDeleted ? .tombstone : .collection)
                    count += 1
                }
            }
            return count
        }
    }
}
