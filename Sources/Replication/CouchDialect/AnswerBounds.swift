import Documents
import Interfaces
import NIOCore

/// How much of an answer is accepted, depending on what it can contain at most.
enum AnswerBounds {
    /// `couch_small_answer_bytes`: for answers with only a few members.
    static let small = 64 << 10
    /// `couch_log_bytes`: for a replication log: fifty entries, each with sequences of several kilobytes.
    static let log = 1 << 20
    /// `couch_row_bytes`: per document asked about: some hundred leaves, or the message of a validation function.
    static let row = 16 << 10
    /// `couch_tree_bytes`: memory for the parsed values of one answer. A `_bulk_get` that needs more is requested in halves.
    static let tree = 256 << 20

    static func rows(_ count: Int) -> Int { min(small + count * row, CouchDialect.Portions.answerBytes) }
}

/// The answers that a session is processing, as text and as values.
struct AnswersInProgress {
    private(set) var bytes = 0

    /// Reserves memory for another answer if that leaves enough for the others; always succeeds for the first one.
    ///
    /// - Parameter most: the maximum for all answers together.
    /// - Returns: false if it has to wait for the others.
    mutating func take(_ more: Int, most: Int) -> Bool {
        guard bytes == 0 || bytes + more <= most else { return false }
        bytes += more
        return true
    }

    /// Reserves unconditionally.
    mutating func add(_ more: Int) { bytes += more }
    mutating func relinquish(_ some: Int) { bytes -= some }
}

extension CouchDialect {
    /// How much of an answer is collected, in bytes. With several documents it is a fraction that leaves memory for other requests in flight: a
    /// longer answer is requested again with fewer documents.
    func answerBytes(isOne: Bool) -> Int { isOne ? Portions.answerBytes : min(Portions.answerBytes, memory.limit / 6) }

    /// How much of an answer with a single document is collected: it is in memory as received and as stored, and once more while it is examined.
    var documentBytes: Int { min(Portions.answerBytes, memory.limit / 8 * 3) }

    /// The `limits.memory` needed for a document of this size.
    static func memoryBytes(forDocument bytes: Int) -> Int { (bytes / 3 + 1) * 8 + 8 }

    /// Whether a successful answer needs too much memory as text and values. Values are counted one and a half times, and an eighth of
    /// `limits.memory` is never used.
    func exceedsBounds(_ answer: PeerAnswer, isOne: Bool) -> Bool {
        if answer.isTooLarge { return true }
        guard answer.isGood else { return false }
        let values = answer.valueBytes
        return values > AnswerBounds.tree || answer.body.readableBytes + values > memory.limit / 12 * (isOne ? 7 : 2)
    }

    /// Parses an answer. Its text and values are accounted for while `body` works with them.
    func reading<Result>(_ answer: PeerAnswer, _ what: String, _ body: (JSONValue) async throws -> Result) async throws -> Result {
        let bytes = answer.body.readableBytes + answer.valueBytes
        try await take(bytes)
        defer { relinquish(bytes) }
        return try await body(try answer.json(what))
    }

    /// Accounts for this many bytes, checking for available memory in the same step, since several answers arrive at the same time. If there is none,
    /// the wait is short: work in progress may be waiting for this answer.
    func take(_ bytes: Int) async throws {
        for _ in 0..<Self.looks {
            if state.withLock({ $0.atHand.take(bytes, most: memory.limit / 12 * 7) }) { return tell([]) }
            try await environment.time.sleep(nanoseconds: 50_000_000)
        }
        state.withLock { $0.atHand.add(bytes) }
        tell([])
    }

    func relinquish(_ bytes: Int) { state.withLock { $0.atHand.relinquish(bytes) } }

    /// How often it checks for memory, at intervals of 50 milliseconds.
    private static let looks = 40
}
