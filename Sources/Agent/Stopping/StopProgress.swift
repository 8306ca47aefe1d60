import Glibc
import Synchronization

/// How far a stop has progressed, for the line that says why one was cut short.
final class StopProgress: Sendable {
    private let step = Mutex("the admin API")
    /// When the stop was requested; nil if unknown.
    private let began = Mutex<UInt64?>(nil)

    func begin(_ name: String) { step.withLock { $0 = name } }

    /// - Parameter now: monotonic nanoseconds.
    func start(at now: UInt64) { began.withLock { $0 = $0 ?? now } }

    /// Nanoseconds available for connections: the promised time, less what earlier steps took and later steps need. At least a second.
    func timeForConnections(now: UInt64) -> UInt64 {
        max(1_000_000_000, remaining(now, most: UInt64(StopLimits.connections) * 1_000_000_000))
    }

    /// The same for observer plugins: at least a tenth of a second.
    func timeForObservers(now: UInt64) -> UInt64 { max(100_000_000, remaining(now, most: StopLimits.observers)) }

    private func remaining(_ now: UInt64, most: UInt64) -> UInt64 {
        guard let began = began.withLock({ $0 }) else { return most }
        let end = began + UInt64(StopLimits.promised) * 1_000_000_000 - StopLimits.rest
        return min(most, end > now ? end - now : 0)
    }

    /// The current step, and the threads that are running or waiting for the disk: the stop can only be waiting for one of these.
    var description: String { "it was at: \(step.withLock { $0 }); busy threads: \(ThreadState.busy())" }
}

/// The states of the process's threads, according to the kernel.
enum ThreadState {
    /// The most threads that are shown.
    private static let most = 20

    /// Threads that run or wait for a device, each with its name, its state and the kernel function in which it waits.
    static func busy() -> String {
        guard let folder = opendir("/proc/self/task") else { return "unknown" }
        defer { closedir(folder) }
        var found: [String] = []
        while found.count < most, let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard !name.hasPrefix("."), let state = state(name) else { continue }
            // "S" is interruptible sleep: the thread waits to be woken.
            if state != "S" { found.append("\(firstLine("/proc/self/task/\(name)/comm")) \(state) \(firstLine("/proc/self/task/\(name)/wchan"))") }
        }
        return found.isEmpty ? "none" : found.joined(separator: ", ")
    }

    /// The letter after the thread's name, which may itself contain spaces and parentheses.
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
