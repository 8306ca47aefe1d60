import Environment
import Synchronization

/// Limits of the queue of comparisons.
package enum ShadowLimits {
    /// `shadow_queue`: number of documents or conflicts.
    package static let waiting = 1_000
    /// `shadow_queue_bytes`: bytes of their bodies, and of the serving plugin's answers.
    package static let waitingBytes = 16 << 20
    /// Questions that are answered together, and documents that a candidate is given at once.
    package static let batch = 50
}

/// Questions to candidates alongside serving plugins. Callers do not wait: questions are answered later, one after another, and those that do not fit
/// into the queue are skipped.
package final class ShadowQueue<Question: Sendable>: Sendable {
    private struct Entry: Sendable {
        var question: Question
        /// Number of documents or conflicts.
        var count: Int
        var bytes: Int
    }

    private struct State {
        var entries: [Entry] = []
        /// Includes questions being answered, whose bodies are still held.
        var count = 0
        var bytes = 0
        var isRunning = false
        var isStopped = false
        var idle: [CheckedContinuation<Void, Never>] = []

        /// Whether the caller has to start answering.
        mutating func starts() -> Bool {
            defer { isRunning = true }
            return !isRunning
        }

        mutating func leave(_ entries: [Entry]) {
            for entry in entries {
                count -= entry.count
                bytes -= entry.bytes
            }
        }
    }

    private let environment: Environment
    private let answer: @Sendable (ShadowQueue<Question>, [Question]) async -> Void
    private let state = Mutex(State())

    /// - Parameter answer: answers questions; its results are ignored once the queue is stopped.
    package init(_ environment: Environment, answer: @escaping @Sendable (ShadowQueue<Question>, [Question]) async -> Void) {
        self.environment = environment
        self.answer = answer
    }

    /// Accepts as many as fit, beginning with the first.
    ///
    /// - Parameters:
    ///   - bytes: the size of each.
    ///   - make: creates the question about the first `count` of them.
    /// - Returns: how many were accepted; all of them if the queue is stopped, since their answers are no longer needed.
    package func offer(_ bytes: [Int], _ make: (_ count: Int) -> Question) -> Int {
        let (taken, starts) = state.withLock { state -> (Int, Bool) in
            if state.isStopped { return (bytes.count, false) }
            var (taken, sum) = (0, 0)
            while taken < bytes.count, state.count + taken < ShadowLimits.waiting, state.bytes + sum + bytes[taken] <= ShadowLimits.waitingBytes {
                sum += bytes[taken]
                taken += 1
            }
            guard taken > 0 else { return (0, false) }
            state.entries.append(Entry(question: make(taken), count: taken, bytes: sum))
            state.count += taken
            state.bytes += sum
            return (taken, state.starts())
        }
        if starts { start() }
        return taken
    }

    /// Adds a small question whose size does not count, at the end of the queue. If ten times `shadow_queue` entries are waiting, it is dropped.
    package func note(_ question: Question) {
        let starts = state.withLock { state -> Bool in
            guard !state.isStopped, state.entries.count < 10 * ShadowLimits.waiting else { return false }
            state.entries.append(Entry(question: question, count: 0, bytes: 0))
            return state.starts()
        }
        if starts { start() }
    }

    package var isStopped: Bool { state.withLock { $0.isStopped } }

    /// Drops everything that is waiting.
    package func stop() {
        state.withLock { state in
            state.isStopped = true
            state.leave(state.entries)
            state.entries = []
        }
    }

    /// Returns once nothing is waiting any more.
    package func drained() async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state -> Bool in
                if state.isRunning { state.idle.append(continuation) }
                return !state.isRunning
            }
            if isIdle { continuation.resume() }
        }
    }

    private func start() { environment.task(priority: .low) { await self.run() } }

    private func run() async {
        while let batch = take() {
            await answer(self, batch.map(\.question))
            state.withLock { $0.leave(batch) }
        }
    }

    /// Nil if nothing is waiting; nothing is running then.
    private func take() -> [Entry]? {
        let (batch, waiters) = state.withLock { state -> ([Entry], [CheckedContinuation<Void, Never>]) in
            let batch = Array(state.entries.prefix(ShadowLimits.batch))
            guard batch.isEmpty else {
                state.entries.removeFirst(batch.count)
                return (batch, [])
            }
            state.isRunning = false
            defer { state.idle = [] }
            return ([], state.idle)
        }
        for waiter in waiters { waiter.resume() }
        return batch.isEmpty ? nil : batch
    }
}
