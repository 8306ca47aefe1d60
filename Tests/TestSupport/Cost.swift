import Glibc

/// What an agent has spent since a certain moment: CPU time, and memory beyond what it held then.
package struct Cost: Sendable, CustomStringConvertible {
    package var seconds: Double
    /// The peak of allocated memory since then, less what was allocated then, in bytes. Pages of files do not count: an agent gives up those of its program
    /// when it is ready, and they come back with what it does.
    package var growth: Int

    package var description: String { "\(Int(seconds * 1000)) ms of CPU, \(growth >> 10) KiB" }
}

/// Measures what an agent spends by asking the system, not the agent.
package struct Meter: Sendable {
    private let pid: pid_t
    private let ticks: Int
    private let allocated: Int

    /// Begins to measure.
    package init(_ agent: AgentProcess) throws {
        pid = agent.process.pid
        ticks = try Self.ticks(pid)
        allocated = try Self.status(pid, "RssAnon:")
        // Resets the peak (proc(5), clear_refs). If the system does not offer that, the peak since the agent started counts.
        let descriptor = open("/proc/\(pid)/clear_refs", O_WRONLY | O_CLOEXEC)
        if descriptor >= 0 {
            _ = write(descriptor, "5", 1)
            close(descriptor)
        }
    }

    package func cost() throws -> Cost {
        Cost(
            seconds: Double(try Self.ticks(pid) - ticks) / Double(sysconf(Int32(_SC_CLK_TCK))),
            growth: try Self.status(pid, "VmHWM:") - Self.status(pid, "RssFile:") - allocated)
    }

    package static func descriptors(of agent: AgentProcess) throws -> Int {
        guard let folder = opendir("/proc/\(agent.process.pid)/fd") else { throw SupportError("the agent is gone") }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        return count
    }

    /// utime and stime of proc(5), in clock ticks.
    private static func ticks(_ pid: pid_t) throws -> Int {
        let text = String(decoding: try TemporaryFolder.bytes(of: "/proc/\(pid)/stat"), as: UTF8.self)
        // The name of the program, in parentheses, may contain spaces.
        let fields = text[(text.lastIndex(of: ")") ?? text.startIndex)...].split(separator: " ")
        guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else { throw SupportError("no times in \(text)") }
        return user + system
    }

    /// A line of /proc/PID/status, in bytes.
    private static func status(_ pid: pid_t, _ name: String) throws -> Int {
        let text = String(decoding: try TemporaryFolder.bytes(of: "/proc/\(pid)/status"), as: UTF8.self)
        let line = text.split(separator: "\n").first { $0.hasPrefix(name) }
        guard let kilobytes = line?.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap({ Int($0) }) else {
            throw SupportError("no \(name) in \(text)")
        }
        return kilobytes << 10
    }
}
