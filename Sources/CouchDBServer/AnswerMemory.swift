import Environment
import HTTPServer
import Synchronization

/// What a listener's answers of CouchDB's API hold of `limits.memory`: documents are read by a few requests at a time, while there
/// is room, and what was read counts until its client has taken it.
///
/// Who waits for room holds nothing. When the wait gets long, the answer that holds the most for the longest is cut; a client that reads is
/// done by then.
package final class AnswerMemory: Sendable {
    private struct Held {
        var bytes: Int
        /// Monotonic nanoseconds.
        var since: UInt64
        var cut: @Sendable () -> Void
    }

    private struct State {
        var readers = 0
        var waiters: [CheckedContinuation<Void, Never>] = []
        var held: [ObjectIdentifier: Held] = [:]
    }

    private let budget: MemoryBudget
    private let time: any TimeSource
    private let state = Mutex(State())

    package init(_ budget: MemoryBudget, time: any TimeSource) { (self.budget, self.time) = (budget, time) }

    /// What one answer holds; given back when nobody holds it any more.
    final class Answer: Sendable {
        private let memory: AnswerMemory
        private let share = Mutex<MemoryBudget.Share?>(nil)
        private let cut: @Sendable () -> Void

        init(_ memory: AnswerMemory, cut: @escaping @Sendable () -> Void) { (self.memory, self.cut) = (memory, cut) }

        deinit { memory.forget(ObjectIdentifier(self)) }

        /// Reads what may come to so many bytes, and says what it came to.
        ///
        /// - Throws: ``HTTPError`` 503 that names the limit where there is no room for `couchdb_answer_wait`; `CancellationError` when the client is gone.
        func reading<Value: Sendable>(_ bytes: Int, _ read: () async throws -> (Value, bytes: Int)) async throws -> Value {
            try await memory.begin(bytes)
            defer { memory.isRead() }
            let (value, count) = try await read()
            hold(count)
            return value
        }

        /// From now on it holds so many bytes.
        ///
        /// - Parameter isOwed: the client can make them go away, by reading.
        func hold(_ bytes: Int, isOwed: Bool = true) {
            // A document that is larger than the budget is still read, alone.
            let bytes = min(bytes, memory.budget.limit / 2)
            let isKept = share.withLock { share in
                if share == nil {
                    // Not worth counting, and most answers are like this.
                    guard bytes > CouchLimits.smallAnswer else { return false }
                    share = memory.budget.share { [cut] standing in if standing == .evicted { cut() } }
                }
                if share?.hold(bytes, owedByPeer: isOwed ? bytes : 0) == .evicted { cut() }
                return true
            }
            if isKept { memory.note(ObjectIdentifier(self), isOwed ? bytes : 0, cut) }
        }
    }

    func answer(cut: @escaping @Sendable () -> Void) -> Answer { Answer(self, cut: cut) }

    private func begin(_ bytes: Int) async throws {
        let start = time.monotonicNanoseconds()
        while true {
            await turn()
            if Task.isCancelled {
                isRead()
                throw CancellationError()
            }
            let holders = state.withLock { $0.held.count }
            if holders == 0 || budget.hasRoom(for: bytes) { return }
            isRead()
            let waited = time.monotonicNanoseconds() - start
            guard waited < CouchLimits.answerWait * 1_000_000 else {
                throw HTTPError(
                    503, "answers that clients have not read leave no room in limits.memory (\(budget.limit) bytes)", headers: ["Retry-After": "5"])
            }
            if waited > CouchLimits.answerPatience * 1_000_000 { cutSlowest() }
            try await time.sleep(nanoseconds: 50_000_000)
        }
    }

    /// Until fewer than `couchdb_readers` read.
    private func turn() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.readers >= CouchLimits.readers else {
                    state.readers += 1
                    return true
                }
                state.waiters.append(continuation)
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    private func isRead() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            if !state.waiters.isEmpty { return state.waiters.removeFirst() }
            state.readers -= 1
            return nil
        }
        next?.resume()
    }

    private func note(_ answer: ObjectIdentifier, _ bytes: Int, _ cut: @escaping @Sendable () -> Void) {
        let now = time.monotonicNanoseconds()
        state.withLock { $0.held[answer] = bytes > 0 ? Held(bytes: bytes, since: now, cut: cut) : nil }
    }

    private func forget(_ answer: ObjectIdentifier) { state.withLock { $0.held[answer] = nil } }

    private func cutSlowest() {
        let now = time.monotonicNanoseconds()
        let cut = state.withLock { state in
            func age(_ held: Held) -> UInt64 { now > held.since ? now - held.since : 0 }
            let old = state.held.filter { age($0.value) > CouchLimits.answerPatience * 1_000_000 }
            let most = old.max { Double($0.value.bytes) * Double(age($0.value)) < Double($1.value.bytes) * Double(age($1.value)) }
            // It gives its memory back when its connection is closed; meanwhile the next wait looks for another.
            if let most { state.held[most.key] = nil }
            return most?.value.cut
        }
        cut?()
    }
}
