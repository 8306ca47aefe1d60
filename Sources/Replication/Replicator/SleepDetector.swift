import Environment

/// Detects that the machine was asleep: connections from before may be dead without any notification.
package struct SleepDetector: Sendable {
    /// `sleep_threshold`: shorter periods, and the time between reading the two clocks, do not count.
    static let thresholdNanoseconds: UInt64 = 2_000_000_000

    private let time: any TimeSource
    private var known: UInt64

    package init(_ time: any TimeSource) {
        (self.time, known) = (time, time.sleptNanoseconds())
    }

    /// Seconds that the machine has slept since the last check; nil if it was awake.
    package mutating func look() -> Int? {
        let now = time.sleptNanoseconds()
        guard now >= known + Self.thresholdNanoseconds else { return nil }
        defer { known = now }
        return Int((now - known) / 1_000_000_000)
    }
}
