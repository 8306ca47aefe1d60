import Environment
import Glibc

/// The environment of a running agent: the values of `${NAME}` and `${credential:NAME}` in its configuration. A supervisor's environment
/// differs from a shell's.
enum AgentEnvironment {
    /// - Returns: nil if no agent holds the data folder, or this user may not read its environment.
    static func of(data: String) -> [String: String]? {
        guard let pid = owner(of: "\(data)/agent.lock"), let file = fopen("/proc/\(pid)/environ", "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 << 10)
        while case let count = fread(&piece, 1, piece.count, file), count > 0 { bytes += piece[..<count] }
        // An empty environment cannot be distinguished from one that this user may not read.
        guard !bytes.isEmpty else { return nil }
        var variables: [String: String] = [:]
        for entry in bytes.split(separator: 0) {
            guard let mark = entry.firstIndex(of: UInt8(ascii: "=")) else { continue }
            variables[String(decoding: entry[..<mark], as: UTF8.self)] = String(decoding: entry[(mark + 1)...], as: UTF8.self)
        }
        return variables
    }

    /// The process that holds the lock; after a process has ended only its number remains in the file.
    private static func owner(of path: String) -> pid_t? {
        guard let descriptor = try? RegularFile.open(path, O_RDONLY) else { return nil }
        defer { close(descriptor) }
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return nil }
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        return pid_t(String(decoding: bytes[..<count].prefix { (0x30...0x39).contains($0) }, as: UTF8.self))
    }
}
