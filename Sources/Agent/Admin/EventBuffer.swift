import Synchronization

/// Events for one reader of `/api/events`, as they are sent. A reader that is slow loses the oldest of them, and is told how many.
final class EventBuffer: Sendable {
    private struct State {
        var queue = EventQueue()
        /// Of the last event of the record that came here or passed by.
        var number: Int
        var lost = 0
        /// The last that was lost.
        var lastLost = 0
        /// Nobody knows how many were lost before the first.
        var isUnknown = false

        mutating func append(_ entry: EventQueue.Entry) {
            for entry in queue.append(entry) where entry.text != EventText.comment {
                lost += 1
                lastLost = entry.number
            }
        }
    }

    private let state: Mutex<State>
    /// Which record the numbers are of.
    private let run: String
    /// Gives a value when there is something to take; ends with ``finish()``.
    let signal: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    /// - Parameter number: of the last event before the first that is added.
    init(run: String, number: Int, onEnd: @escaping @Sendable () -> Void = {}) {
        self.run = run
        state = Mutex(State(number: number))
        (signal, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        wake.onTermination = { _ in onEnd() }
    }

    /// What happened, in the order of the record.
    func add(_ entry: EventQueue.Entry) {
        state.withLock { state in
            state.number = entry.number
            state.append(entry)
        }
        wake.yield()
    }

    /// What is told beside that, and not again to a reader that comes back.
    func add(_ text: [UInt8]) {
        state.withLock { state in state.append(EventQueue.Entry(number: state.number, text: text)) }
        wake.yield()
    }

    /// The record went on with something that this reader did not ask for.
    func pass(_ number: Int) { state.withLock { $0.number = number } }

    /// Says first that events are missing, before the next ones.
    ///
    /// - Parameter count: nil where nobody knows how many.
    func lose(_ count: Int?) {
        state.withLock { state in
            state.lost += count ?? 0
            state.isUnknown = count == nil
            state.lastLost = state.number
        }
        wake.yield()
    }

    func finish() { wake.finish() }

    /// The next event, behind it what was lost before it; nil where nothing waits.
    func take() -> [UInt8]? {
        state.withLock { state in
            var text: [UInt8] = []
            if state.lost > 0 || state.isUnknown {
                let count = state.isUnknown ? "null" : "\(state.lost)"
                text += id(state.lastLost) + EventText.event("lost", Array("{\"events\":\(count)}".utf8))
                state.lost = 0
                state.isUnknown = false
            }
            if let entry = state.queue.removeFirst() { text += (entry.text == EventText.comment ? [] : id(entry.number)) + entry.text }
            return text.isEmpty ? nil : text
        }
    }

    private func id(_ number: Int) -> [UInt8] { Array("id: \(run)-\(number)\n".utf8) }
}
