import Environment
import HTTPServer
import Synchronization

/// What a listener's answers of CouchDB's API hold of `limits.memory`: documents are read by a few requests at a time, while there
/// is room, and what was read counts until its client has taken it.
///
/// When the wait for room gets long, the answer whose client has left the most unread for the longest is cut; a client that reads is done by then.
/// What a request asks is no client's debt, however long it is held: feeds that wait for news keep it, and so do requests that wait for room. Where
/// such questions leave none, who asks for more is told to come back.
package final class AnswerMemory: Sendable {
    private struct Held {
        var bytes: Int
        /// Monotonic nanoseconds.
        var since: UInt64
        var cut: @Sendable () -> Void
    }

    private struct State {
        /// Answers that their clients have not read.
        var held: [ObjectIdentifier: Held] = [:]
        /// Answers whose requests come to something.
        var questions: Set<ObjectIdentifier> = []
    }

    private let budget: MemoryBudget
    private let time: any TimeSource
    private let state = Mutex(State())
    private let readers = Turnstile(CouchLimits.readers)
    private let matchers = Turnstile(CouchLimits.matchers)
    private let writers = Turnstile(CouchLimits.writers)
    private let largeWriters = Turnstile(1)

    package init(_ budget: MemoryBudget, time: any TimeSource) { (self.budget, self.time) = (budget, time) }

    /// What one answer holds, with what the request itself comes to; given back when nobody holds it any more.
    final class Answer: Sendable {
        private struct Parts {
            var share: MemoryBudget.Share?
            /// What was read for the answer.
            var page = 0
            /// The part of that which the client can make go away.
            var owed = 0
            /// What the request is, taken apart. It goes when the answer is over.
            var question = 0
        }

        private let memory: AnswerMemory
        private let parts = Mutex(Parts())
        private let cut: @Sendable () -> Void

        init(_ memory: AnswerMemory, cut: @escaping @Sendable () -> Void) { (self.memory, self.cut) = (memory, cut) }

        deinit { memory.forget(ObjectIdentifier(self)) }

        /// Reads what may come to so many bytes, and says what it came to.
        ///
        /// - Throws: ``HTTPError`` 503 that names the limit where there is no room for `couchdb_answer_wait`; `CancellationError` when the client is gone.
        func reading<Value: Sendable>(_ bytes: Int, _ read: () async throws -> (Value, bytes: Int)) async throws -> Value {
            let room = try await memory.begin(bytes, for: ObjectIdentifier(self), besideQuestions: true)
            defer { memory.readers.leave() }
            let (value, count) = try await read()
            // What it was taken for is counted next: not twice, for which somebody would have to go.
            _ = consume room
            hold(count)
            return value
        }

        /// Takes the request apart into what comes to so many bytes, which are held until the answer is over.
        ///
        /// - Throws: ``HTTPError`` 413 that names `limits.memory` where it would be more than half of that; 503 as ``reading(_:_:)``.
        func asking<Value>(_ bytes: Int, _ read: () throws -> Value) async throws -> Value {
            guard bytes > CouchLimits.smallAnswer else { return try read() }
            guard bytes <= memory.budget.limit / 2 else {
                throw HTTPError(
                    413, "the request's values come to \(bytes) bytes in memory, more than half of limits.memory (\(memory.budget.limit) bytes): ask for fewer")
            }
            let room = try await memory.begin(bytes, for: ObjectIdentifier(self), besideQuestions: false)
            defer { memory.readers.leave() }
            _ = consume room
            holdQuestion(bytes)
            return try read()
        }

        /// Reads documents and matches them with a selector when the turn of this answer comes. Nothing is written to the client in it.
        func matching<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
            await memory.matchers.enter()
            defer { memory.matchers.leave() }
            try Task.checkCancellation()
            return try await body()
        }

        /// From now on so many bytes are held of the request itself.
        func holdQuestion(_ bytes: Int) { change { $0.question = bytes } }

        /// From now on it holds so many bytes.
        ///
        /// - Parameter isOwed: the client can make them go away, by reading.
        func hold(_ bytes: Int, isOwed: Bool = true) {
            // A document that is larger than the budget is still read, alone.
            let bytes = min(bytes, memory.budget.limit / 2)
            change { ($0.page, $0.owed) = (bytes, isOwed ? bytes : 0) }
        }

        private func change(_ body: (inout Parts) -> Void) {
            let held = parts.withLock { parts -> (owed: Int, question: Int)? in
                body(&parts)
                let bytes = parts.page + parts.question
                if parts.share == nil {
                    // Not worth counting, and most answers are like this.
                    guard bytes > CouchLimits.smallAnswer else { return nil }
                    parts.share = memory.budget.share { [cut] standing in if standing == .evicted { cut() } }
                }
                if parts.share?.hold(bytes, owedByPeer: parts.owed) == .evicted { cut() }
                return (parts.owed, parts.question)
            }
            if let held { memory.note(ObjectIdentifier(self), held.owed, question: held.question, cut) }
        }
    }

    /// What packs an answer; nil where there is no room for it: the answer goes out as it is.
    func packer() -> Gzip? { budget.reserveNow(Gzip.memory).flatMap { Gzip($0) } }

    /// Takes documents of a request apart and stores them, which has them in memory several times over, when their turn comes. Nothing of the
    /// request is waited for in it.
    func writing<Value>(_ bytes: Int, _ body: () async throws -> Value) async throws -> Value {
        guard bytes > CouchLimits.smallWrite else { return try await body() }
        let isLarge = bytes > CouchLimits.largeWrite
        if isLarge { await largeWriters.enter() }
        defer { if isLarge { largeWriters.leave() } }
        await writers.enter()
        defer { writers.leave() }
        try Task.checkCancellation()
        // What it is taken apart into counts beside its text, as far as that does not put off everybody else.
        let copies = isLarge ? budget.share { _ in } : nil
        _ = copies?.hold(min(bytes, budget.limit / 8), owedByPeer: 0)
        defer { copies?.giveUp() }
        return try await body()
    }

    func answer(cut: @escaping @Sendable () -> Void) -> Answer { Answer(self, cut: cut) }

    /// - Parameter besideQuestions: what other requests hold of themselves is no reason to wait where nobody has anything to read: it would not go
    ///   before they are answered.
    /// - Returns: the room, which others cannot take meanwhile; nil for one that is alone and needs none, and while work waits that could need all of it.
    private func begin(_ bytes: Int, for answer: ObjectIdentifier, besideQuestions: Bool) async throws -> MemoryBudget.Reservation? {
        let start = time.monotonicNanoseconds()
        while true {
            await readers.enter()
            if Task.isCancelled {
                readers.leave()
                throw CancellationError()
            }
            // What the answer itself holds is no reason to wait.
            let isAlone = state.withLock { state in
                state.held.keys.allSatisfy { $0 == answer } && (besideQuestions || state.questions.allSatisfy { $0 == answer })
            }
            if budget.isAwaited {
                if budget.hasRoom(for: bytes) { return nil }
            } else if let room = budget.reserveUndisturbing(bytes) {
                return room
            }
            if isAlone { return nil }
            readers.leave()
            let waited = time.monotonicNanoseconds() - start
            guard waited < CouchLimits.answerWait * 1_000_000 else {
                throw HTTPError(
                    503, "requests and answers that clients have not read leave no room in limits.memory (\(budget.limit) bytes)", headers: ["Retry-After": "5"])
            }
            if waited > CouchLimits.answerPatience * 1_000_000 { cutSlowest(but: answer) }
            try await time.sleep(nanoseconds: 50_000_000)
        }
    }

    private func note(_ answer: ObjectIdentifier, _ bytes: Int, question: Int, _ cut: @escaping @Sendable () -> Void) {
        let now = time.monotonicNanoseconds()
        state.withLock { state in
            state.held[answer] = bytes > 0 ? Held(bytes: bytes, since: now, cut: cut) : nil
            if question > 0 { state.questions.insert(answer) } else { state.questions.remove(answer) }
        }
    }

    private func forget(_ answer: ObjectIdentifier) {
        state.withLock { state in
            state.held[answer] = nil
            state.questions.remove(answer)
        }
    }

    private func cutSlowest(but answer: ObjectIdentifier) {
        let now = time.monotonicNanoseconds()
        let cut = state.withLock { state in
            func age(_ held: Held) -> UInt64 { now > held.since ? now - held.since : 0 }
            let old = state.held.filter { $0.key != answer && age($0.value) > CouchLimits.answerPatience * 1_000_000 }
            let most = old.max { Double($0.value.bytes) * Double(age($0.value)) < Double($1.value.bytes) * Double(age($1.value)) }
            // It gives its memory back when its connection is closed; meanwhile the next wait looks for another.
            if let most { state.held[most.key] = nil }
            return most?.value.cut
        }
        cut?()
    }
}
