import Documents

/// How old documents are, roughly: marks say which sequence was the last one at which time. What has a smaller sequence has not changed since.
/// So no document carries a time, and none is written for it.
struct AgeMarks: Equatable {
    /// `age_marks`: of a collection; the times between them follow from it.
    static let maximum = 100

    /// Ascending in both.
    private(set) var marks: [(time: Int64, sequence: SequenceNumber)] = []

    static func == (left: Self, right: Self) -> Bool { left.text == right.text }

    init() {}

    /// `TIME SEQUENCE TIME SEQUENCE …`
    init(_ text: String) {
        let numbers = text.split(separator: " ").compactMap { Int64($0) }
        for index in stride(from: 0, to: numbers.count - 1, by: 2) {
            // From a time before all others the time since could not be counted.
            marks.append((max(numbers[index], Int64.min / 4), SequenceNumber(clamping: numbers[index + 1])))
        }
    }

    var text: String { marks.map { "\($0.time) \($0.sequence)" }.joined(separator: " ") }

    /// Notes that `sequence` is the last one now.
    ///
    /// - Parameter age: the greatest that anybody will ask for.
    mutating func note(_ sequence: SequenceNumber, now: Int64, age: Int64) {
        // Of a clock that was wrong.
        marks.removeAll { $0.time > now }
        guard now - (marks.last?.time ?? .min / 2) >= max(1, age / Int64(Self.maximum)) else { return }
        marks.append((now, sequence))
        // The newest of those that are old enough is all that is needed of them.
        if let last = marks.lastIndex(where: { now - $0.time >= age }), last > 0 { marks.removeFirst(last) }
        if marks.count > 2 * Self.maximum { marks.removeFirst(marks.count - 2 * Self.maximum) }
    }

    /// Notes that `sequence` is the last one now. No age bounds these marks, so they get fewer with time: an age is told to a sixth of it.
    ///
    /// - Returns: whether anything has come since the last mark.
    mutating func note(_ sequence: SequenceNumber, now: Int64) -> Bool {
        // Of a clock that was wrong, or of what a backup has not.
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

    /// What the marks are made for. Each has its own: those for an age of months are days apart.
    enum Kind: String, CaseIterable {
        case documents = ""
        case tombstones = "_deleted"
        /// For what waits to be pushed: close together lately, and further apart long ago.
        case waiting = "_waiting"

        func key(_ collection: Collection) -> String { "ages_\(collection.id)\(rawValue)" }
    }

    /// When a mark first said that what had this sequence had come; nil where none says it.
    func marked(_ sequence: SequenceNumber) -> Int64? { marks.first { $0.sequence >= sequence }?.time }

    /// What had this sequence or a smaller one has not changed for so long; 0 where nothing is as old.
    func sequence(olderThan age: Int64, now: Int64) -> SequenceNumber { marks.last { now - $0.time >= age }?.sequence ?? 0 }
}

extension Database {
    /// Notes how far a collection is now, and says up to which sequence documents and tombstones are older than their ages.
    ///
    /// - Parameters:
    ///   - documents: the age in seconds; nil: nobody asks.
    ///   - tombstones: the age in seconds; nil: nobody asks.
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
            // Once both had the same marks.
            let before = try own ?? transaction.property(AgeMarks.Kind.documents.key(collection))
            return (own, before ?? "", try transaction.lastSequence(collection))
        }
        var marks = AgeMarks(before)
        marks.note(last, now: now, age: age)
        let text = marks.text
        if text != own { try await write { try $0.setProperty(key, text) } }
        return marks.sequence(olderThan: age, now: now)
    }

    /// Notes how far a collection is now, while something of it waits to be pushed.
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

    /// Purges documents, each only if it has not changed since.
    ///
    /// - Returns: how many have gone.
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
