import Synchronization

/// Events for one reader of `/api/events`, as they are sent. A reader that is slow loses the oldest of them, and is told how many.
final class EventBuffer: Sendable {
    /// `max_waiting_events`: kept for a reader that is slow.
    static let maximumWaiting = 1_000
    /// `max_waiting_event_bytes`: of them all together. An event that is larger is lost.
    static let maximumWaitingBytes = 1 << 20

    private struct State {
        /// Nil for those that were taken.
        var events: [[UInt8]?] = []
        var head = 0
        var bytes = 0
        var lost = 0

        var count: Int { events.count - head }

        mutating func removeFirst() -> [UInt8]? {
            guard head < events.count, let event = events[head].take() else { return nil }
            head += 1
            bytes -= event.count
            if head == events.count || head > 1_000 {
                events.removeFirst(head)
                head = 0
            }
            return event
        }
    }

    private let state = Mutex(State())
    /// Gives a value when there is something to take; ends with ``finish()``.
    let signal: AsyncStream<Void>
    private let wake: AsyncStream<Void>.Continuation

    init(onEnd: @escaping @Sendable () -> Void = {}) {
        (signal, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
        wake.onTermination = { _ in onEnd() }
    }

    func add(_ event: [UInt8]) {
        state.withLock { state in
            state.events.append(event)
            state.bytes += event.count
            while state.count > Self.maximumWaiting || state.bytes > Self.maximumWaitingBytes, state.removeFirst() != nil { state.lost += 1 }
        }
        wake.yield()
    }

    func finish() { wake.finish() }

    /// The next event, and how many were lost since the last one; nil where nothing waits.
    func take() -> (lost: Int, event: [UInt8]?)? {
        state.withLock { state in
            let event = state.removeFirst()
            defer { state.lost = 0 }
            return event == nil && state.lost == 0 ? nil : (state.lost, event)
        }
    }
}
