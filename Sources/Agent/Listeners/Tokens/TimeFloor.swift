import DocumentStore
import Environment
import Glibc
import Synchronization

/// A lower bound for the current time. A machine whose clock was never set, or was set back, must not accept tokens that expired long ago.
///
/// The bound is the latest of: the beginning of 2026 (`earliest_time`), the modification time of the token keys' file, and the time that the agent last
/// recorded in its data folder. A synchronised clock overrides the last two: they may come from a time when the clock was ahead.
final class TimeFloor: Sendable {
    /// `noted_time_interval`: seconds between two recordings, and how long an unsynchronised clock has to run without a jump before its time is recorded:
    /// a machine that starts with a wrong time usually sets it soon afterwards.
    static let interval: Int64 = 600
    /// `clock_jump`: differences larger than this many seconds mean that the clock was set, rather than gradually adjusted.
    private static let jump: Int64 = 5
    /// Times beyond the year 9999 are invalid.
    private static let latest: Int64 = 253_402_300_799

    private struct State {
        var noted: Int64
        /// The offset of the clock from the monotonic one, and since when (by the monotonic one) it has been stable.
        var steady: (ahead: Int64, since: Int64)?
    }

    private let path: String
    private let time: any TimeSource
    private let isKept: @Sendable () -> Bool
    private let state: Mutex<State>
    /// Serialises writes to the file.
    private let writing = Mutex(())

    /// - Parameter isKept: whether this machine's clock is currently synchronised.
    init(dataFolder: String, time: any TimeSource, isKept: @escaping @Sendable () -> Bool = { System.keepsClock }) {
        path = "\(dataFolder)/clock.noted"
        self.time = time
        self.isKept = isKept
        state = Mutex(State(noted: Self.read(path) ?? 0))
    }

    /// The time to use for tokens, and why it differs from the clock; nil if it does not.
    ///
    /// - Parameter keys: the path of the token keys' file.
    func now(keys: String?) -> (seconds: Int64, doubt: String?) {
        let wall = time.wallSeconds()
        var (floor, why) = (StoreLimits.earliestSeconds, "no clock is right before \(Timestamp.format(StoreLimits.earliestSeconds)) (earliest_time)")
        let noted = state.withLock { $0.noted }
        if noted > floor { (floor, why) = (noted, "the agent ran here at \(Timestamp.format(noted)) (\(path))") }
        if let keys, let written = Self.written(keys), written > floor { (floor, why) = (written, "\(keys) was written at \(Timestamp.format(written))") }
        guard wall < floor, wall < StoreLimits.earliestSeconds || !isKept() else { return (wall, nil) }
        // Clock corrections of a few seconds are normal.
        guard floor - wall > Self.jump else { return (floor, nil) }
        return (floor, "the clock of this machine says \(Timestamp.format(wall)) and looks unset: \(why)")
    }

    /// Records the time for later starts, at most once per interval.
    func note() {
        let wall = time.wallSeconds()
        guard (StoreLimits.earliestSeconds...Self.latest).contains(wall) else { return }
        let isKept = self.isKept()
        let running = Int64(clamping: (time.monotonicNanoseconds() &+ time.sleptNanoseconds()) / 1_000_000_000)
        let shouldSave = state.withLock { state in
            let ahead = wall - running
            if state.steady.map({ abs($0.ahead - ahead) > Self.jump }) ?? true { state.steady = (ahead, running) }
            let isSteady = state.steady.map { running - $0.since >= Self.interval } ?? false
            // A time recorded while the clock was ahead is corrected once the clock is synchronised.
            guard isKept ? abs(wall - state.noted) >= Self.interval : isSteady && wall - state.noted >= Self.interval else { return false }
            state.noted = wall
            return true
        }
        guard shouldSave else { return }
        // If the write fails, the next recording tries again; problems with the disk are reported elsewhere.
        _ = writing.withLock { _ in try? DurableFile.write(path, Array("\(wall)\n".utf8), writers: .thisProcess) }
    }

    private static func written(_ path: String) -> Int64? {
        var facts = stat()
        guard stat(path, &facts) == 0 else { return nil }
        return min(Int64(facts.st_mtim.tv_sec), latest)
    }

    private static func read(_ path: String) -> Int64? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 32)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count > 0, let seconds = Int64(String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)) else { return nil }
        return (StoreLimits.earliestSeconds...latest).contains(seconds) ? seconds : nil
    }
}
