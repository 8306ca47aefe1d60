import Agent
import Glibc
import NIOCore

/// A file or standard output, written in pieces. A file appears under its name when it is complete.
struct OutputFile: Sendable {
    let descriptor: Int32
    private let path: String?
    private let temporary: String?

    /// - Parameter path: nil or "-" for standard output.
    init(_ path: String?) throws {
        guard let path, path != "-" else {
            descriptor = 1
            self.path = nil
            temporary = nil
            return
        }
        self.path = path
        var facts = stat()
        // Pipes and devices are written directly.
        let isDirect = stat(path, &facts) == 0 && facts.st_mode & S_IFMT != S_IFREG
        let name = isDirect ? path : "\(path).\(getpid()).part"
        temporary = isDirect ? nil : name
        descriptor = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw AgentError(.failed, "\(name): \(String(cString: strerror(errno)))") }
    }

    func write(_ buffer: ByteBuffer) throws {
        try buffer.withUnsafeReadableBytes { try Output.writeAll(descriptor, $0) }
    }

    /// Puts a complete file in its place.
    func finish() throws {
        guard let path else { return }
        guard close(descriptor) == 0, temporary.map({ rename($0, path) == 0 }) ?? true else {
            throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))")
        }
    }

    /// Leaves nothing behind.
    func abandon() {
        if let temporary { unlink(temporary) }
    }
}
