import Environment
import HTTPServer
import Synchronization

/// Accounts for the part of `limits.memory` that answers of a listener's CouchDB API use: a few requests at a time read documents, while there is
/// memory for them, and what was read counts until the client has received it.
///
/// If a request waits too long for memory, the answer whose client has left the most unread for the longest is cut; a client that reads is done by
/// then. Memory for the request itself does not count as owed by the client, however long it is held: feeds waiting for changes hold such memory, and
/// so do requests waiting for memory. If these use up all of it, further requests get a 503 and are asked to come back.
package final class AnswerMemory: Sendable {
    private struct Held {
        var bytes: Int
        /// Monotonic nanoseconds.
        var since: UInt64
        var cut: @Sendable () -> Void
    }

    private struct State {
        /// Answers whose clients have not read everything.
        var held: [ObjectIdentifier: Held] = [:]
        /// Answers whose requests themselves take up memory.
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

    /// What one answer holds, including its request; released when nobody refers to it any more.
    final class Answer: Sendable {
        private struct Parts {
            var share: MemoryBudget.Share?
            /// Bytes that were read for the answer.
            var page = 0
            /// The part of these that is released when the client reads.
            var owed = 0
            /// Bytes of the parsed request. Released when the answer is complete.
            var question = 0
        }

        private let memory: AnswerMemory
        private let parts = Mutex(Parts())
        private let cut: @Sendable () -> Void

        init(_ memory: AnswerMemory, cut: @escaping @Sendable () -> Void) { (self.memory, self.cut) = (memory, cut) }

        deinit { memory.forget(ObjectIdentifier(self)) }

        /// Reads at most the given number of bytes; `read` returns the actual number.
        ///
        /// - Throws: ``HTTPError`` 503 naming the limit, if there is no memory within `couchdb_answer_wait`; `CancellationError` if the client has
        ///   disconnected.
        func reading<Value: Sendable>(_ bytes: Int, _ read: () async throws -> (Value, bytes: Int)) async throws -> Value {
            let room = try await memory.begin(bytes, for: ObjectIdentifier(self), besideQuestions: true)
            defer { memory.readers.leave() }
            let (value, count) = try await read()
            // Released before the actual size is counted: counting both might evict somebody.
            _ = consume room
            hold(count)
            return value
        }

        /// Parses a request into values of the given size in memory, which are held until the answer is complete.
        ///
        /// - Throws: ``HTTPError`` 413 naming `limits.memory`, if it would take more than half of that; 503 as ``reading(_:_:)``.
        func asking<Value>(_ bytes: Int, _ read: () throws -> Value) async throws -> Value {
            guard bytes > CouchLimits.smallAnswer else { return try read() }
            guard bytes <= memory.budget.limit / 2 else {
                throw HTTPError(
                    413, "the request's values come to \(bytes) bytes in memory, more than half of limits.memory (\(memory.budget.limit) bytes): ask for fewer")
            }
            let room = try await memory.begin(bytes, for: ObjectIdentifier(self), besideQuestions: false)
            defer { memory.readers.leave() }
            _ = consume room
            reserveForRequest(bytes)
            return try read()
        }

        /// Reads documents and matches them with a selector when it is this answer's turn. Nothing may be written to the client meanwhile.
        func matching<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
            await memory.matchers.enter()
            defer { memory.matchers.leave() }
            try Task.checkCancellation()
            return try await body()
        }

        /// From now on the request itself takes this many bytes.
        func reserveForRequest(_ bytes: Int) { change { $0.question = bytes } }

        /// From now on the answer holds this many bytes.
        ///
        /// - Parameter isOwed: whether they are released when the client reads.
        func hold(_ bytes: Int, isOwed: Bool = true) {
            // A document larger than the budget is still read, alone.
            let bytes = min(bytes, memory.budget.limit / 2)
            change { ($0.page, $0.owed) = (bytes, isOwed ? bytes : 0) }
        }

        private func change(_ body: (inout Parts) -> Void) {
            let held = parts.withLock { parts -> (owed: Int, question: Int)? in
                body(&parts)
                let bytes = parts.page + parts.question
                if parts.share == nil {
                    // Most answers are this small, and not worth counting.
                    guard bytes > CouchLimits.smallAnswer else { return nil }
                    parts.share = memory.budget.share { [cut] standing in if standing == .evicted { cut() } }
                }
                if parts.share?.hold(bytes, owedByPeer: parts.owed) == .evicted { cut() }
                return (parts.owed, parts.question)
            }
            if let held { memory.note(ObjectIdentifier(self), held.owed, question: held.question, cut) }
        }
    }

    /// Compresses an answer; nil if there is no memory for that: the answer is then sent uncompressed.
    func packer() -> Gzip? { budget.reserveNow(Gzip.memory).flatMap { Gzip($0) } }

    /// Parses and stores a request's documents, which takes several copies of them in memory, when it is this request's turn. Must not wait for more
    /// of the request meanwhile.
    func writing<Value>(_ bytes: Int, _ body: () async throws -> Value) async throws -> Value {
        guard bytes > CouchLimits.smallWrite else { return try await body() }
        let isLarge = bytes > CouchLimits.largeWrite
        if isLarge { await largeWriters.enter() }
        defer { if isLarge { largeWriters.leave() } }
        await writers.enter()
        defer { writers.leave() }
        try Task.checkCancellation()
        // The parsed values count in addition to the text, but only up to a bound that leaves memory for others.
        let copies = isLarge ? budget.share { _ in } : nil
        _ = copies?.hold(min(bytes, budget.limit / 8), owedByPeer: 0)
        defer { copies?.giveUp() }
        return try await body()
    }

    func answer(cut: @escaping @Sendable () -> Void) -> Answer { Answer(self, cut: cut) }

    /// - Parameter besideQuestions: do not wait for the memory of other requests themselves if no answer is being read: those would not release it
    ///   before they are answered.
    /// - Returns: a reservation of the memory; nil for a request that is alone and needs none, and while other work is waiting that could need all of
    ///   it.
    private func begin(_ bytes: Int, for answer: ObjectIdentifier, besideQuestions: Bool) async throws -> MemoryBudget.Reservation? {
        let start = time.monotonicNanoseconds()
        while true {
            await readers.enter()
            if Task.isCancelled {
                readers.leave()
                throw CancellationError()
            }
            // Memory that the answer itself holds is no reason to wait.
            let isAlone = state.withLock { state in
                state.held.keys.allSatisfy { $0 == answer } && (besideQuestions || state.questions.allSatisfy { $0 == answer })
            }
            if budget.isAwaited {
                if budget.hasRoom(for: bytes) { return nil }
            } else if let room = budget.reserveWithoutEviction(bytes) {
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
            // Its memory is released when its connection is closed; until then the next wait picks a different answer.
            if let most { state.held[most.key] = nil }
            return most?.value.cut
        }
        cut?()
    }
}
