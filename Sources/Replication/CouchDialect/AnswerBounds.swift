import Documents
import Interfaces
import NIOCore

/// How much of an answer is taken, by what it can be at most.
enum AnswerBounds {
    /// `couch_small_answer_bytes`: where nothing but a few members are to come.
    static let small = 64 << 10
    /// `couch_log_bytes`: of a replication log: fifty entries, each with sequences of some kilobytes.
    static let log = 1 << 20
    /// `couch_row_bytes`: of an answer, for each document that was asked about: some hundred leaves, or a validation's words.
    static let row = 16 << 10
    /// `couch_tree_bytes`: what the values of one answer may take in memory. A `_bulk_get` that has more is asked for in halves.
    static let tree = 256 << 20

    static func rows(_ count: Int) -> Int { min(small + count * row, CouchDialect.Portions.answerBytes) }
}

/// What a session has at hand of answers, text and values.
struct AnswersAtHand {
    private(set) var bytes = 0

    /// Takes room for one more where that leaves enough for the others, and for the first in any case.
    ///
    /// - Parameter most: what answers may take together.
    /// - Returns: false where it has to wait for them.
    mutating func take(_ more: Int, most: Int) -> Bool {
        guard bytes == 0 || bytes + more <= most else { return false }
        bytes += more
        return true
    }

    /// Without a question.
    mutating func add(_ more: Int) { bytes += more }
    mutating func giveBack(_ some: Int) { bytes -= some }
}

extension CouchDialect {
    /// How much of an answer is collected, in bytes. Of several documents it is a part that leaves room for the other requests under way: where it is
    /// more, fewer are asked for at a time.
    func answerBytes(isOne: Bool) -> Int { isOne ? Portions.answerBytes : min(Portions.answerBytes, memory.limit / 6) }

    /// How much of an answer with one document is collected: it is here as it came and as it is stored, and there once more where it is looked at.
    var documentBytes: Int { min(Portions.answerBytes, memory.limit / 8 * 3) }

    /// The `limits.memory` with which a document of so many bytes comes.
    static func memoryBytes(forDocument bytes: Int) -> Int { (bytes / 3 + 1) * 8 + 8 }

    /// A good answer is more than may be held as text and values. These are counted half as much again, and an eighth of `limits.memory` is never used.
    func isTooMuch(_ answer: PeerAnswer, isOne: Bool) -> Bool {
        if answer.isTooLarge { return true }
        guard answer.isGood else { return false }
        let values = answer.valueBytes
        return values > AnswerBounds.tree || answer.body.readableBytes + values > memory.limit / 12 * (isOne ? 7 : 2)
    }

    /// Reads an answer, and counts text and values among what the session holds for as long as it works with them.
    func reading<Result>(_ answer: PeerAnswer, _ what: String, _ body: (JSONValue) async throws -> Result) async throws -> Result {
        let bytes = answer.body.readableBytes + answer.valueBytes
        try await take(bytes)
        defer { giveBack(bytes) }
        return try await body(try answer.json(what))
    }

    /// Counts so much among what is at hand, in one step with the look whether there is room: several answers come at the same time. Where there is
    /// none, the wait is short: what is worked on may wait for this one.
    func take(_ bytes: Int) async throws {
        for _ in 0..<Self.looks {
            if state.withLock({ $0.atHand.take(bytes, most: memory.limit / 12 * 7) }) { return tell([]) }
            try await environment.time.sleep(nanoseconds: 50_000_000)
        }
        state.withLock { $0.atHand.add(bytes) }
        tell([])
    }

    func giveBack(_ bytes: Int) { state.withLock { $0.atHand.giveBack(bytes) } }

    /// How often it is looked, 50 milliseconds apart, whether there is room.
    private static let looks = 40
}
