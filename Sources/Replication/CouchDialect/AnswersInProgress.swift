import Documents
import Interfaces
import NIOCore

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
    func answerBytes(isOne: Bool) -> Int { isOne ? CouchBounds.answerBytes : min(CouchBounds.answerBytes, memory.limit / 6) }

    /// How much of an answer with a single document is collected: it is in memory as received and as stored, and once more while it is examined.
    var documentBytes: Int { min(CouchBounds.answerBytes, memory.limit / 8 * 3) }

    /// The `limits.memory` needed for a document of this size.
    static func memoryBytes(forDocument bytes: Int) -> Int { (bytes / 3 + 1) * 8 + 8 }

    /// Whether a successful answer needs too much memory as text and values. Values are counted one and a half times, and an eighth of
    /// `limits.memory` is never used.
    func exceedsBounds(_ answer: PeerAnswer, isOne: Bool) -> Bool {
        if answer.isTooLarge { return true }
        guard answer.isGood else { return false }
        let values = answer.valueBytes
        return values > CouchBounds.treeBytes || answer.body.readableBytes + values > memory.limit / 12 * (isOne ? 7 : 2)
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
        for _ in 0..<CouchBounds.memoryChecks {
            if state.withLock({ $0.atHand.take(bytes, most: memory.limit / 12 * 7) }) { return tell([]) }
            try await environment.time.sleep(nanoseconds: CouchBounds.memoryCheckNanoseconds)
        }
        state.withLock { $0.atHand.add(bytes) }
        tell([])
    }

    func relinquish(_ bytes: Int) { state.withLock { $0.atHand.relinquish(bytes) } }
}
