import Agent
import Glibc
import Synchronization

/// A line on standard error that is updated in place; nothing if that is not a terminal.
final class Progress: Sendable {
    private struct State {
        var lastShown = ContinuousClock.now - .seconds(1)
        var isShown = false
    }

    let isShown: Bool
    let started = ContinuousClock.now
    private let state = Mutex(State())

    init() { isShown = isatty(2) == 1 }

    /// At most ten times a second.
    func show(_ text: @autoclosure () -> String) {
        guard isShown else { return }
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            guard now - state.lastShown >= .milliseconds(100) else { return false }
            state.lastShown = now
            state.isShown = true
            return true
        }
        if isDue { Output.write(2, "\r\u{1B}[K\(text())") }
    }

    /// Removes the line.
    func clear() {
        if state.withLock({ $0.isShown }) { Output.write(2, "\r\u{1B}[K") }
    }

    /// Per second since the start.
    func rate(_ count: some BinaryInteger) -> Int {
        let passed = started.duration(to: .now)
        let seconds = Double(passed.components.seconds) + Double(passed.components.attoseconds) / 1e18
        return seconds > 0.01 ? Int(Double(count) / seconds) : 0
    }

    /// `[#######-------]`.
    static func bar(_ completed: some BinaryInteger, of total: some BinaryInteger, width: Int = 30) -> String {
        let filled = total > 0 ? min(width, Int(Double(completed) / Double(total) * Double(width))) : 0
        return "[\(String(repeating: "#", count: filled))\(String(repeating: "-", count: width - filled))]"
    }
}
