import Glibc
import Synchronization

/// How far a stop has come, for the line that says why one was cut short.
final class StopProgress: Sendable {
    private let step = Mutex("the admin API")
    /// When the stop was asked for; nil where nobody said.
    private let began = Mutex<UInt64?>(nil)

    func begin(_ name: String) { step.withLock { $0 = name } }

    /// - Parameter now: of the monotonic clock, in nanoseconds.
    func start(at now: UInt64) { began.withLock { $0 = $0 ?? now } }

    /// Nanoseconds that connections may take: what the steps before have left of what is promised, without what comes behind. A second at least.
    func timeForConnections(now: UInt64) -> UInt64 {
        max(1_000_000_000, time(now, most: UInt64(StopLimits.connections) * 1_000_000_000))
    }

    /// The same for plugins that hear what replicators did: a tenth of a second at least.
    func timeForObservers(now: UInt64) -> UInt64 { max(100_000_000, time(now, most: StopLimits.observers)) }

    private func time(_ now: UInt64, most: UInt64) -> UInt64 {
        guard let began = began.withLock({ $0 }) else { return most }
        let end = began + UInt64(StopLimits.promised) * 1_000_000_000 - StopLimits.rest
        return min(most, end > now ? end - now : 0)
    }

    /// The step under way, and the threads that do something or wait for the disk: what neither is nor does cannot be what is waited for.
    var description: String { "it was at: \(step.withLock { $0 }); busy threads: \(ThreadState.busy())" }
}

/// What the kernel says of the process's threads.
enum ThreadState {
    /// Shown at most.
    private static let most = 20

    /// Threads that run or wait for a device, each with its name, its state and the place in the kernel where it waits.
    static func busy() -> String {
        guard let folder = opendir("/proc/self/task") else { return "unknown" }
        defer { closedir(folder) }
        var found: [String] = []
        while found.count < most, let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard !name.hasPrefix("."), let state = state(name) else { continue }
            // "S" sleeps until somebody wakes it.
            if state != "S" { found.append("\(firstLine("/proc/self/task/\(name)/comm")) \(state) \(firstLine("/proc/self/task/\(name)/wchan"))") }
        }
        return found.isEmpty ? "none" : found.joined(separator: ", ")
    }

    /// The letter behind the thread's name, which may have spaces and parentheses in it.
    private static func state(_ thread: String) -> Character? {
        let line = firstLine("/proc/self/task/\(thread)/stat")
        guard let end = line.lastIndex(of: ")") else { return nil }
        return line[end...].dropFirst(2).first
    }

    private static func firstLine(_ path: String) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 512)
        let count = max(0, read(file, &bytes, bytes.count))
        return String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
