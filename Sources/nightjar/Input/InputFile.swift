import Agent
import Environment
import Glibc
import NIOCore

/// A file or standard input, read in pieces.
struct InputFile: Sendable {
    let descriptor: Int32
    let name: String
    /// Nil for pipes and terminals.
    let size: Int?

    static let pieceBytes = 128 << 10

    /// Other names for standard input. It is used directly, because opening one of these names would open a named pipe (`mkfifo`) a second time.
    private static let standardNames: Set<String> = ["/dev/stdin", "/dev/fd/0"]

    /// - Parameter path: nil or "-" for standard input.
    init(_ path: String?) throws {
        if let path, path != "-" {
            name = path
            descriptor = Self.standardNames.contains(path) ? 0 : try Self.open(path)
        } else {
            name = "standard input"
            descriptor = 0
        }
        var facts = stat()
        size = fstat(descriptor, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG ? Int(facts.st_size) : nil
    }

    /// A file that the user did not name: it must be a regular file.
    ///
    /// - Throws: ``FileError``.
    init(regular path: String) throws {
        name = path
        descriptor = try RegularFile.open(path, O_RDONLY)
        var facts = stat()
        size = fstat(descriptor, &facts) == 0 ? Int(facts.st_size) : nil
    }

    /// Opens regular files, pipes from a shell such as `<(…)`, terminals and /dev/null.
    private static func open(_ path: String) throws -> Int32 {
        var facts = stat()
        // Non-blocking: opening a pipe without a writer would block forever.
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else {
            let number = errno
            let isSocket = number == ENXIO && stat(path, &facts) == 0
            throw AgentError(.failed, isSocket ? "\(path) is \(FileKind.words(facts.st_mode)), not a file" : "\(path): \(String(cString: strerror(number)))")
        }
        guard fstat(descriptor, &facts) == 0 else {
            let number = errno
            Glibc.close(descriptor)
            throw AgentError(.failed, "\(path): \(String(cString: strerror(number)))")
        }
        let (mode, device) = (facts.st_mode, facts.st_rdev)
        let isFit =
            switch mode & S_IFMT {
            case S_IFREG: true
            case S_IFIFO: !FileKind.isNamedPipe(descriptor)
            case S_IFCHR: isatty(descriptor) == 1 || stat("/dev/null", &facts) == 0 && facts.st_rdev == device
            default: false
            }
        guard isFit else {
            Glibc.close(descriptor)
            let advice = mode & S_IFMT == S_IFDIR ? "" : "; what it brings is read from standard input: give - and < \(path)"
            throw AgentError(.failed, "\(path) is \(FileKind.words(mode)), and a file is expected\(advice)")
        }
        // Reads may block from here on.
        _ = fcntl(descriptor, F_SETFL, O_RDONLY)
        return descriptor
    }

    /// The next piece, nil at the end.
    func next() throws -> ByteBuffer? {
        var buffer = ByteBuffer()
        var problem: Int32 = 0
        buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: Self.pieceBytes) { space in
            while true {
                let count = read(descriptor, space.baseAddress, Self.pieceBytes)
                if count < 0, errno == EINTR { continue }
                if count < 0 { problem = errno }
                return max(0, count)
            }
        }
        guard problem == 0 else { throw AgentError(.failed, "\(name): \(String(cString: strerror(problem)))") }
        return buffer.readableBytes == 0 ? nil : buffer
    }

    /// Everything, for documents.
    ///
    /// - Parameter limit: `max_input` in bytes; more is an error.
    func all(limit: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while let piece = try next() {
            guard bytes.count + piece.readableBytes <= limit else {
                throw AgentError(.invalid, "\(name) has more than \(limit) bytes (max_input)")
            }
            bytes += piece.readableBytesView
        }
        return bytes
    }

    func close() {
        if descriptor > 0 { Glibc.close(descriptor) }
    }
}
