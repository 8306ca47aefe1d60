import Agent
import NIOCore
import Synchronization

/// Cuts an answer that comes in pieces into lines.
final class LineReader: Sendable {
    private let lines = Mutex(LineSplitter())

    /// Gives the lines that are complete.
    func append(_ piece: ByteBuffer, _ each: ([UInt8]) throws -> Void) throws {
        let complete = try lines.withLock { lines in
            lines.append(piece.readableBytesView)
            return try lines.takeAll()
        }
        for line in complete { try each(line) }
    }
}
