import Agent
import Environment
import Glibc

/// The agents of this machine that run with a certain configuration file, on whatever data folder: the file's `data` may have changed since they
/// started, or `--data` was given to them.
enum RunningAgents {
    /// `proc_file`: the most that is read of a file of the kernel's, in bytes.
    private static let fileBytes = 8 << 20
    /// The kernel's flag of a socket that accepts connections (`__SO_ACCEPTCON`).
    private static let accepts: UInt32 = 1 << 16

    /// Their data folders; empty if there are none, or this user may not see them.
    static func folders(config: String) -> [String] {
        var folders: [String] = []
        for folder in listeningFolders(in: text("/proc/net/unix")) where !folders.contains(folder) {
            guard let owner = Int32(text("\(folder)/agent.lock").prefix { $0.isNumber }), runs(owner, with: config),
                LocalSocket.connectError(AdminServer.socketPath(data: folder)) == nil
            else { continue }
            folders.append(folder)
        }
        return folders
    }

    /// The data folders with an admin socket that accepts connections, from the kernel's table of local sockets.
    private static func listeningFolders(in table: String) -> [String] {
        let name = AdminServer.socketPath(data: "")
        return table.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ", maxSplits: 7)
            guard fields.count == 8, let flags = UInt32(fields[3], radix: 16), flags & accepts != 0, fields[7].hasPrefix("/"), fields[7].hasSuffix(name)
            else { return nil }
            return String(fields[7].dropLast(name.count))
        }
    }

    /// Whether a process was started as `nightjar run` with this file, by whatever name.
    private static func runs(_ process: Int32, with config: String) -> Bool {
        let words = text("/proc/\(process)/cmdline").split(separator: "\0", omittingEmptySubsequences: false).map(String.init)
        guard words.dropFirst().first == "run" else { return false }
        let option = "--config"
        let named: String? =
            words.firstIndex(of: option).flatMap { words.indices.contains($0 + 1) ? words[$0 + 1] : nil }
            ?? words.first { $0.hasPrefix("\(option)=") }.map { String($0.dropFirst(option.count + 1)) }
        guard let named, let wanted = FileIdentity(path: config) else { return false }
        return FileIdentity(path: named.hasPrefix("/") ? named : "/proc/\(process)/cwd/\(named)") == wanted
    }

    /// Empty if it cannot be read.
    private static func text(_ path: String) -> String {
        // Does not wait where somebody put a named pipe.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { return "" }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count < fileBytes {
            let count = read(descriptor, &piece, piece.count)
            guard count > 0 else { break }
            bytes += piece[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
