import Environment

/// Notices that the machine was asleep: connections from before may be dead without anybody having said so.
package struct SleepDetector: Sendable {
    /// `sleep_threshold`: shorter phases, and what the two clocks are read apart, do not count.
    static let thresholdNanoseconds: UInt64 = 2_000_000_000

    private let time: any TimeSource
    private var known: UInt64

    package init(_ time: any TimeSource) {
        (self.time, known) = (time, time.sleptNanoseconds())
    }

    /// Seconds that the machine has slept since the last look; nil where it was awake.
    package mutating func look() -> Int? {
        let now = time.sleptNanoseconds()
        guard now >= known + Self.thresholdNanoseconds else { return nil }
        defer { known = now }
        return Int((now - known) / 1_000_000_000)
    }
}
