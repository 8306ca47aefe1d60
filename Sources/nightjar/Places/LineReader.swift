import Agent
import NIOCore
import Synchronization

/// Splits an answer that arrives in pieces into lines.
final class LineReader: Sendable {
    private let lines = Mutex(LineSplitter())

    /// Passes on the lines that are complete.
    func append(_ piece: ByteBuffer, _ each: ([UInt8]) throws -> Void) throws {
        let complete = try lines.withLock { lines in
            lines.append(piece.readableBytesView)
            return try lines.takeAll()
        }
        for line in complete { try each(line) }
    }
}
