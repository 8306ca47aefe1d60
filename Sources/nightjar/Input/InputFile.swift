import Agent
import Glibc
import NIOCore

/// A file or standard input, read in pieces.
struct InputFile: Sendable {
    let descriptor: Int32
    let name: String
    /// Nil for pipes and terminals.
    let size: Int?

    static let pieceBytes = 128 << 10

    /// - Parameter path: nil or "-" for standard input.
    init(_ path: String?) throws {
        if let path, path != "-" {
            name = path
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw AgentError(.failed, "\(path): \(String(cString: strerror(errno)))") }
        } else {
            name = "standard input"
            descriptor = 0
        }
        var facts = stat()
        size = fstat(descriptor, &facts) == 0 && facts.st_mode & S_IFMT == S_IFREG ? Int(facts.st_size) : nil
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
    /// - Parameter limit: `max_input`: bytes; an error above.
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
