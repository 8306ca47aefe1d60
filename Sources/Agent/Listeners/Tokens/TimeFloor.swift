import DocumentStore
import Environment
import Glibc
import Synchronization

/// The earliest that it can be now. A machine whose clock was not set, or was set back, must not take tokens that ended long ago.
///
/// It is the latest of: the beginning of 2026 (`earliest_time`), when the file with the keys of tokens was written, and the time that the agent noted last
/// in its data folder. A clock that something keeps right is believed against the last two: the clock may have been ahead then.
final class TimeFloor: Sendable {
    /// `noted_time_interval`: seconds between two notes, and how long a clock that nothing keeps right has to go on without a jump before it is noted: one
    /// that starts with a wrong time mostly is set soon.
    static let interval: Int64 = 600
    /// `clock_jump`: seconds by which the clock was set, rather than slowly corrected.
    private static let jump: Int64 = 5
    /// Beyond the year 9999 it is no time.
    private static let latest: Int64 = 253_402_300_799

    private struct State {
        var noted: Int64
        /// How far the clock is ahead of the monotonic one, and since when, by that.
        var steady: (ahead: Int64, since: Int64)?
    }

    private let path: String
    private let time: any TimeSource
    private let isKept: @Sendable () -> Bool
    private let state: Mutex<State>
    /// One at a time.
    private let writing = Mutex(())

    /// - Parameter isKept: whether something keeps this machine's clock right, as it is when it is asked.
    init(dataFolder: String, time: any TimeSource, isKept: @escaping @Sendable () -> Bool = { System.keepsClock }) {
        path = "\(dataFolder)/clock.noted"
        self.time = time
        self.isKept = isKept
        state = Mutex(State(noted: Self.read(path) ?? 0))
    }

    /// What time it is for tokens, and why it is not what the clock says; nil where it is.
    ///
    /// - Parameter keys: the file of the keys.
    func now(keys: String?) -> (seconds: Int64, doubt: String?) {
        let wall = time.wallSeconds()
        var (floor, why) = (StoreLimits.earliestSeconds, "no clock is right before \(Timestamp.format(StoreLimits.earliestSeconds)) (earliest_time)")
        let noted = state.withLock { $0.noted }
        if noted > floor { (floor, why) = (noted, "the agent ran here at \(Timestamp.format(noted)) (\(path))") }
        if let keys, let written = Self.written(keys), written > floor { (floor, why) = (written, "\(keys) was written at \(Timestamp.format(written))") }
        guard wall < floor, wall < StoreLimits.earliestSeconds || !isKept() else { return (wall, nil) }
        // Clocks are corrected by seconds.
        guard floor - wall > Self.jump else { return (floor, nil) }
        return (floor, "the clock of this machine says \(Timestamp.format(wall)) and looks unset: \(why)")
    }

    /// Has the time known to later starts, now and then.
    func note() {
        let wall = time.wallSeconds()
        guard (StoreLimits.earliestSeconds...Self.latest).contains(wall) else { return }
        let isKept = self.isKept()
        let running = Int64(clamping: (time.monotonicNanoseconds() &+ time.sleptNanoseconds()) / 1_000_000_000)
        let shouldSave = state.withLock { state in
            let ahead = wall - running
            if state.steady.map({ abs($0.ahead - ahead) > Self.jump }) ?? true { state.steady = (ahead, running) }
            let isSteady = state.steady.map { running - $0.since >= Self.interval } ?? false
            // What was noted while the clock was ahead ends when something keeps it right.
            guard isKept ? abs(wall - state.noted) >= Self.interval : isSteady && wall - state.noted >= Self.interval else { return false }
            state.noted = wall
            return true
        }
        guard shouldSave else { return }
        // Where the disk refuses, the next note is tried; others tell of the disk.
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
