import Documents
import Synchronization

/// Wakes whoever waits for changes of a collection. The rows are the truth; a signal only says that
/// there are newer ones.
final class ChangeSignals: Sendable {
    private struct State {
        var newest: [Int: SequenceNumber] = [:]
        var waiting: [Int: [Int: AsyncStream<SequenceNumber>.Continuation]] = [:]
        var nextNumber = 0
        var isFinished = false
    }

    private let state = Mutex(State())

    func start(_ collection: Int, _ sequence: SequenceNumber) {
        state.withLock { $0.newest[collection] = sequence }
    }

    func committed(_ news: [(collection: Int, sequence: SequenceNumber)]) {
        // Outside the lock: a yield may need the lock of a waiting task, which its cancellation holds while it calls
        // onTermination, which takes ours.
        let waiting = state.withLock { state in
            var waiting: [(AsyncStream<SequenceNumber>.Continuation, SequenceNumber)] = []
            for (collection, sequence) in news {
                state.newest[collection] = sequence
                for continuation in (state.waiting[collection] ?? [:]).values { waiting.append((continuation, sequence)) }
            }
            return waiting
        }
        for (continuation, sequence) in waiting { continuation.yield(sequence) }
    }

    func stream(_ collection: Int) -> AsyncStream<SequenceNumber> {
        let (stream, continuation) = AsyncStream.makeStream(of: SequenceNumber.self, bufferingPolicy: .bufferingNewest(1))
        let number: Int? = state.withLock { state in
            if state.isFinished { return nil }
            let number = state.nextNumber
            state.nextNumber += 1
            state.waiting[collection, default: [:]][number] = continuation
            continuation.yield(state.newest[collection] ?? 0)
            return number
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.waiting[collection]?.removeValue(forKey: number) }
        }
        return stream
    }

    func finish() {
        // Outside the lock: finishing calls onTermination, which takes it.
        let all = state.withLock { state in
            state.isFinished = true
            defer { state.waiting = [:] }
            return state.waiting.values.flatMap(\.values)
        }
        for continuation in all { continuation.finish() }
    }
}
