import Glibc

/// What a piece of work cost this process.
struct Cost: Sendable {
    /// Wall time in seconds.
    var seconds: Double
    /// User and system time of all threads, in seconds.
    var cpuSeconds: Double
}

/// A starting point for measurements.
struct Stopwatch {
    private let wall = monotonicSeconds()
    private let cpu = processorSeconds()

    var cost: Cost { Cost(seconds: monotonicSeconds() - wall, cpuSeconds: processorSeconds() - cpu) }
}

/// The same clock for all processes on this machine.
func monotonicNanoseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
}

func monotonicSeconds() -> Double { Double(monotonicNanoseconds()) * 1e-9 }

/// CPU time of this process so far, in seconds.
func processorSeconds() -> Double {
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6
}

/// CPU time of another process so far, in seconds, to a hundredth.
func processorSeconds(of process: pid_t) throws -> Double {
    let text = String(decoding: try Files.contents("/proc/\(process)/stat"), as: UTF8.self)
    // After the name, which may contain anything: the times are the 14th and 15th fields overall.
    let fields = text.split(separator: ")").last?.split(separator: " ") ?? []
    guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { throw BenchError("/proc/\(process)/stat: \(text)") }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
}

/// CPU time of this thread so far, in nanoseconds: the cost of a short loop, whatever else the machine does.
func threadNanoseconds() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
}

/// A line in `/proc/PID/status` in MB of 2^20 bytes: `VmRSS` (resident now) or `VmHWM` (the peak).
func residentMegabytes(_ key: String, process: pid_t = getpid()) throws -> Double {
    let text = String(decoding: try Files.contents("/proc/\(process)/status"), as: UTF8.self)
    for line in text.split(separator: "\n") where line.hasPrefix(key + ":") {
        let digits = line.utf8.filter { $0 >= 0x30 && $0 <= 0x39 }
        if let kilobytes = Double(String(decoding: digits, as: UTF8.self)) { return kilobytes / 1024 }
    }
    throw BenchError("/proc/\(process)/status has no \(key)")
}

/// Bytes that this process has caused to be written to disks.
func writtenBytes() throws -> Double {
    let text = String(decoding: try Files.contents("/proc/self/io"), as: UTF8.self)
    for line in text.split(separator: "\n") where line.hasPrefix("write_bytes: ") {
        if let bytes = Double(line.dropFirst("write_bytes: ".count)) { return bytes }
    }
    throw BenchError("/proc/self/io has no write_bytes")
}

/// Load average over the last minute and the number of processors, for the notes: figures from a busy machine mean little.
func machineLoad() -> String {
    var loads = [0.0, 0.0, 0.0]
    getloadavg(&loads, 3)
    return "load \(Format.fixed(loads[0], 1)) on \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) processors"
}
