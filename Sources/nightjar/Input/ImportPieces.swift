import Agent
import DocumentStore
import Environment
import NIOCore
import Synchronization

/// The pieces of an import's input. Those that were read ahead, to see whether they hold a document, come again.
final class ImportPieces: Sendable {
    /// Not one line can be stored.
    struct NoDocument: Error {
        /// What was not created.
        var absent: DocumentAccess.Absent
        var counts: DocumentAccess.ImportCounts
    }

    /// Bytes that are read ahead at most, and held in memory: more than the longest line. Nothing is refused for having more.
    private static let aheadBytes = 32 << 20

    private struct State {
        /// What was read ahead, in one buffer: a pipe may bring a few bytes at a time, and each of its pieces has room for many more.
        var ahead = ByteBuffer()
        var isEnd = false
    }

    private let input: InputFile
    private let state = Mutex(State())

    init(_ input: InputFile) { self.input = input }

    /// The next piece, nil at the end.
    func next() throws -> ByteBuffer? {
        let (piece, isEnd): (ByteBuffer?, Bool) = state.withLock { state in
            guard state.ahead.readableBytes > 0 else {
                // Releases its memory.
                state.ahead = ByteBuffer()
                return (nil, state.isEnd)
            }
            return (state.ahead.readSlice(length: min(InputFile.pieceBytes, state.ahead.readableBytes)), state.isEnd)
        }
        if let piece { return piece }
        // A terminal would be asked again.
        return isEnd ? nil : try input.next()
    }

    /// Reads ahead up to the first line that can be stored. Input without any line, and input whose first lines fill ``aheadBytes``, passes.
    ///
    /// - Throws: ``NoDocument``.
    func findDocument(
        source: String?, withoutBlobs: Bool, of absent: DocumentAccess.Absent, _ options: DatabaseOptions, _ judge: DocumentAccess.FirstJudge?
    ) async throws {
        var counts = DocumentAccess.ImportCounts(source: source)
        var splitter = LineSplitter()
        var bytes = 0
        let now = Environment.system.time.wallSeconds()
        while bytes < Self.aheadBytes {
            let piece = try input.next()
            state.withLock { state in
                if var piece { _ = state.ahead.writeBuffer(&piece) } else { state.isEnd = true }
            }
            if let piece {
                bytes += piece.readableBytes
                splitter.append(piece.readableBytesView)
            }
            while let lines = splitter.take(1, isEnd: piece == nil) {
                if await DocumentAccess.holdDocument(lines, withoutBlobs: withoutBlobs, of: absent, options, now: now, judge, &counts) { return }
            }
            guard piece == nil else { continue }
            if counts.failed > 0 { throw NoDocument(absent: absent, counts: counts) }
            return
        }
    }
}
