import Synchronization

/// Events for one reader of `/api/events`, in wire format. A slow reader loses the oldest events, and receives their number.
final class EventBuffer: Sendable {
    private struct State {
        var queue = EventQueue()
        /// The number of the last recorded event that was added here or skipped.
        var number: Int
        var lost = 0
        /// The number of the last event that was lost.
        var lastLost = 0
        /// How many events were lost before the first one is unknown.
        var isUnknown = false

        mutating func append(_ entry: EventQueue.Entry) {
            for entry in queue.append(entry) where entry.text != EventText.comment {
                lost += 1
                lastLost = entry.number
            }
        }
    }

    private let state: Mutex<State>
    /// Identifies the record that the numbers belong to.
    private let run: String
    /// Yields a value when there is something to take; ends with ``finish()``.
    let signal: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    /// - Parameter number: of the last event before the first one that will be added.
    init(run: String, number: Int, onEnd: @escaping @Sendable () -> Void = {}) {
        self.run = run
        state = Mutex(State(number: number))
        (signal, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        wake.onTermination = { _ in onEnd() }
    }

    /// Adds a recorded event; events must be added in the order of the record.
    func add(_ entry: EventQueue.Entry) {
        state.withLock { state in
            state.number = entry.number
            state.append(entry)
        }
        wake.yield()
    }

    /// Adds an event that is not recorded, and so is not repeated for a reader that comes back.
    func add(_ text: [UInt8]) {
        state.withLock { state in state.append(EventQueue.Entry(number: state.number, text: text)) }
        wake.yield()
    }

    /// Skips a recorded event that this reader did not ask for.
    func pass(_ number: Int) { state.withLock { $0.number = number } }

    /// Notes that events are missing before the next ones.
    ///
    /// - Parameter count: nil if it is not known how many.
    func lose(_ count: Int?) {
        state.withLock { state in
            state.lost += count ?? 0
            state.isUnknown = count == nil
            state.lastLost = state.number
        }
        wake.yield()
    }

    func finish() { wake.finish() }

    /// The next event, preceded by a notice of what was lost before it; nil if there is none.
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
