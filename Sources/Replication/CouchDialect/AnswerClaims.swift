import Documents
import Environment
import Interfaces
import NIOCore

/// Memory of answers: claimed in the agent's budget while they arrive and while they are parsed, and held for as long as the answer exists.
extension CouchDialect {
    /// How much of an answer is collected, in bytes. With several documents it is a fraction that leaves memory for other requests in flight: a
    /// longer answer is requested again with fewer documents.
    func answerBytes(isOne: Bool) -> Int { isOne ? mostAnswerBytes : min(CouchBounds.answerBytes, memory.limit / 6) }

    /// How much of any answer is collected: its values need memory as well.
    var mostAnswerBytes: Int { min(CouchBounds.answerBytes, memory.limit / 12 * 7) }

    /// How much of an answer with a single document is collected: it is in memory as received and as stored, and once more while it is examined.
    var documentBytes: Int { min(CouchBounds.answerBytes, memory.limit / 8 * 3) }

    /// Whether a successful answer needs too much memory as text and values; only its beginning is kept then. Values are counted one and a half times,
    /// and an eighth of `limits.memory` is never used.
    func exceedsBounds(_ answer: inout PeerAnswer, isOne: Bool) -> Bool {
        guard exceedsBounds(answer, isOne: isOne) else { return false }
        if !answer.isTooLarge { answer.keepBeginning() }
        return true
    }

    /// The same, and nothing of it is released.
    func exceedsBounds(_ answer: PeerAnswer, isOne: Bool) -> Bool {
        guard answer.isGood, !answer.isTooLarge else { return answer.isTooLarge }
        let values = answer.valueBytes
        return values > CouchBounds.treeBytes || answer.body.readableBytes + values > memory.limit / 12 * (isOne ? 7 : 2)
    }

    /// Parses an answer. Memory for its values is claimed until the answer is released.
    func reading<Result>(_ answer: PeerAnswer, _ what: String, _ body: (JSONValue) async throws -> Result) async throws -> Result {
        let value = try await json(answer, what)
        return try await body(value)
    }

    private func json(_ answer: PeerAnswer, _ what: String) async throws -> JSONValue {
        if !answer.isTooLarge, !answer.hasTooManyValues { try await claim(answer.body.readableBytes + answer.valueBytes, for: answer, what) }
        return try answer.json(what)
    }

    /// Claims memory for this many bytes altogether that come out of an answer.
    func claim(_ bytes: Int, for answer: PeerAnswer, _ what: String) async throws {
        do { try await answer.claim?.grow(to: bytes) } catch let refusal as MemoryBudget.ClaimRefusal { throw outOfMemory(refusal, what) }
    }

    /// Does work that waits for the peer while documents of an answer stay in memory: it is cancelled if others wait for that memory, and the work makes no
    /// progress.
    ///
    /// - Throws: `ClaimRefusal` in that case; otherwise what `work` throws.
    func keeping<Result: Sendable>(_ claim: MemoryBudget.Claim?, _ work: @escaping @Sendable () async throws -> Result) async throws -> Result {
        guard let claim else { return try await work() }
        if let refusal = claim.refusal { throw refusal }
        claim.keep()
        defer { claim.keepNoLonger() }
        return try await claim.whileGranted(environment, work)
    }

    /// A peer whose answers arrive so slowly that others wait for their memory is asked again after a growing pause: without that, the others would have
    /// their turn only between two of its requests.
    func pause(after refusal: MemoryBudget.ClaimRefusal) async throws {
        guard refusal == .tooSlow else { return }
        let before = state.withLock { state in
            state.slowAnswers += 1
            return state.slowAnswers
        }
        try await environment.time.sleep(seconds: min(CouchBounds.longestPauseSeconds, CouchBounds.slowPauseSeconds << min(before, 6)))
    }

    /// After documents that were kept for slow attachments have been released.
    func pauseIfAttachmentsWereSlow() async throws {
        let wereSlow = state.withLock { state in
            defer { state.hasSlowAttachments = false }
            return state.hasSlowAttachments
        }
        if wereSlow { try await pause(after: .tooSlow) }
    }

    /// The answer cannot be read now, for lack of memory.
    func outOfMemory(_ refusal: MemoryBudget.ClaimRefusal, _ what: String) -> ReplicationError {
        let why =
            switch refusal {
            case .noMemory: "has no room for the answer now"
            case .tooSlow: "was needed for other answers, and this one arrived too slowly"
            }
        var error = ReplicationError(domain: .litecore, code: 13, message: "\(what.prefix(200)): this agent's limits.memory (\(memory.limit) bytes) \(why)")
        error.specificRemedy = "raise limits: { memory } of this agent, or let fewer replicators run at the same time"
        return error
    }
}

extension MemoryBudget.Claim {
    /// Requests an answer; aborts the request if the claim is revoked meanwhile.
    ///
    /// - Throws: `ClaimRefusal` if it was; otherwise what `request` throws.
    func whileGranted<Answer: Sendable>(_ environment: Environment, _ request: @escaping @Sendable () async throws -> Answer) async throws -> Answer {
        let task = environment.task { () async -> Result<Answer, any Error> in
            do { return .success(try await request()) } catch { return .failure(error) }
        }
        whenRevoked { task.cancel() }
        defer { whenRevoked(nil) }
        do { return try await withTaskCancellationHandler { await task.value } onCancel: { task.cancel() }.get() } catch {
            throw refusal ?? error
        }
    }
}

extension PeerAnswer {
    /// Releases most of an answer that is of no use: its beginning may tell what it is about.
    mutating func keepBeginning() {
        receivedBytes = receivedBytes ?? body.readableBytes
        body = ByteBuffer(bytes: body.readableBytesView.prefix(CouchBounds.beginningBytes))
        (claim, counted) = (nil, nil)
    }
}

extension ReplicationError {
    /// There was no memory here for what was requested: with less at a time, or later, it may succeed.
    var isShortOfMemory: Bool { domain == .litecore && code == 13 }
}
