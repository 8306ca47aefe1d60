import Synchronization

/// Lets a limited number of lines pass per second and counts the rest.
final class LogThrottle: Sendable {
    enum Answer: Equatable {
        /// The line may pass; this many lines from an earlier second were dropped and have not been reported.
        case pass(droppedBefore: Int)
        case drop
    }

    private struct Window {
        var second: UInt64 = 0
        var lines = 0
        var unreported = 0
    }

    private let window = Mutex(Window())
    private let limit: Atomic<Int>

    init(linesPerSecond: Int) { limit = Atomic(linesPerSecond) }

    /// Sets the limit for later lines.
    func allow(_ linesPerSecond: Int) { limit.store(linesPerSecond, ordering: .relaxed) }

    func ask(now nanoseconds: UInt64) -> Answer {
        window.withLock { window in
            let second = nanoseconds / 1_000_000_000
            if second != window.second {
                window.second = second
                window.lines = 0
            }
            guard window.lines < limit.load(ordering: .relaxed) else {
                window.unreported += 1
                return .drop
            }
            window.lines += 1
            defer { window.unreported = 0 }
            return .pass(droppedBefore: window.unreported)
        }
    }

    /// Adds lines that were dropped elsewhere, to be reported with the next line.
    func dropped(_ lines: Int) { window.withLock { $0.unreported += lines } }

    /// Returns and resets the number of unreported dropped lines; called periodically so that the last burst is reported too.
    func takeUnreported(now nanoseconds: UInt64) -> Int {
        window.withLock { window in
            guard nanoseconds / 1_000_000_000 != window.second else { return 0 }
            defer { window.unreported = 0 }
            return window.unreported
        }
    }
}
