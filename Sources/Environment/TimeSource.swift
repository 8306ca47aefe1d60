import Glibc

/// The two clocks of a machine, and waiting by the first of them.
public protocol TimeSource: Sendable {
    /// Nanoseconds of a clock that never goes back; the values have no other meaning. Timeouts are measured with it.
    func monotonicNanoseconds() -> UInt64

    /// Seconds since 1970, UTC, according to the machine; may jump. For people, and for values that must have the same meaning after a restart.
    func wallSeconds() -> Int64

    /// Nanoseconds since 1970 by the same clock, as precisely as known.
    func wallNanoseconds() -> Int64

    /// Nanoseconds that the machine has slept since it was started, which ``monotonicNanoseconds()`` does not include.
    func sleptNanoseconds() -> UInt64

    /// Waits on the monotonic clock.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    func sleep(nanoseconds: UInt64) async throws
}

extension TimeSource {
    public func wallNanoseconds() -> Int64 { wallSeconds() * 1_000_000_000 }

    public func sleptNanoseconds() -> UInt64 { 0 }

    public func sleep(seconds: Int) async throws { try await sleep(nanoseconds: UInt64(max(0, seconds)) * 1_000_000_000) }
}

/// The clocks of this machine.
public struct SystemTime: TimeSource {
    public init() {}

    @inline(__always)
    public func monotonicNanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    public func sleptNanoseconds() -> UInt64 {
        var (all, awake) = (timespec(), timespec())
        clock_gettime(CLOCK_MONOTONIC, &awake)
        clock_gettime(CLOCK_BOOTTIME, &all)
        let difference = (Int64(all.tv_sec) - Int64(awake.tv_sec)) * 1_000_000_000 + Int64(all.tv_nsec) - Int64(awake.tv_nsec)
        return UInt64(max(0, difference))
    }

    /// The latest time that fits nanoseconds: a machine without a battery-backed clock may have any time.
    private static let latest: Int64 = 9_223_372_000

    public func wallSeconds() -> Int64 { min(max(Int64(time(nil)), -Self.latest), Self.latest) }

    public func wallNanoseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return min(max(Int64(time.tv_sec), -Self.latest), Self.latest) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    public func sleep(nanoseconds: UInt64) async throws { try await Task.sleep(nanoseconds: nanoseconds) }
}
