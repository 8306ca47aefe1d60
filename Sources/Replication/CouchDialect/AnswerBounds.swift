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

    /// What text comes to when it is read as values: a peer can have a value in every other byte.
    static func treeSize(_ text: ByteBuffer) -> Int {
        text.withUnsafeReadableBytes { JSONTreeSize.bytes(of: $0.bindMemory(to: UInt8.self)) }
    }
}

extension CouchDialect {
    /// Reads an answer, and counts text and values among what the session holds for as long as it works with them.
    func reading<Result>(_ answer: PeerAnswer, _ what: String, _ body: (JSONValue) async throws -> Result) async throws -> Result {
        let bytes = answer.body.readableBytes + AnswerBounds.treeSize(answer.body)
        state.withLock { $0.bytesAtHand += bytes }
        tell([])
        defer { state.withLock { $0.bytesAtHand -= bytes } }
        return try await body(try answer.json(what))
    }
}
