import Environment
import Interfaces
import NIOCore
import Synchronization

/// One attachment on its way here. When the connection breaks, what came stays, and only the rest is asked for.
struct AttachmentDownload: Sendable {
    /// `couch_resumptions`: how often in a row a download that brings nothing new is taken up again.
    static let resumptions = 3
    /// `couch_resumption_pause`: seconds before the second such attempt, twice as many before each further one.
    static let pause = 1

    /// The revision stands in it: its attachments never change, so that the rest of one answer fits the beginning of another.
    var path: String
    /// As the document says, if it does.
    var length: UInt64?
    /// Takes the next piece; `total` are all bytes with it.
    var take: @Sendable (_ piece: ByteBuffer, _ total: UInt64) async throws -> Void

    /// - Returns: how many bytes came.
    func run(_ peer: any HTTPPeer, _ time: any TimeSource) async throws -> UInt64 {
        let progress = Progress()
        var failures = 0
        while true {
            let before = progress.count
            do {
                try await ask(peer, progress)
                // Where an answer ends with its connection, nothing else tells that it was cut.
                guard let length, progress.count < length, mayGoOn(before, progress, &failures) else { return progress.count }
            } catch let error as ReplicationError where error.domain == .network {
                if progress.count == length { return progress.count }
                guard mayGoOn(before, progress, &failures) else { throw error }
            }
            if failures > 1 { try await time.sleep(seconds: Self.pause << (failures - 2)) }
        }
    }

    /// A cut behind new bytes costs nothing; several before any are what the connection has to answer for.
    private func mayGoOn(_ before: UInt64, _ progress: Progress, _ failures: inout Int) -> Bool {
        failures = progress.count > before ? 1 : failures + 1
        return progress.count > 0 && failures <= Self.resumptions
    }

    private func ask(_ peer: any HTTPPeer, _ progress: Progress) async throws {
        let start = progress.count
        var request = PeerRequest("GET", path)
        request.patience = CouchDialect.Portions.patience
        if start > 0 { request.headers.append(("Range", "bytes=\(start)-")) }
        progress.position = 0
        let answer = try await peer.download(request) { head, piece in
            // A server that does not know ranges, or has the attachment packed, sends all of it again.
            if progress.position == 0, head.status == 206 { progress.position = try Self.first(head, start) }
            guard let new = progress.advance(piece) else { return }
            try await take(new, progress.count)
        }
        // It was cut behind its last byte.
        let isComplete = start > 0 && answer.status == 416 && answer.header("content-range") == "bytes */\(start)"
        guard !answer.isGood, !isComplete else { return }
        throw ReplicationError(answer, to: "GET \(path)")
    }

    /// Where a partial answer begins: `Content-Range: bytes 100-199/200`.
    private static func first(_ answer: PeerAnswer, _ expected: UInt64) throws -> UInt64 {
        let field = answer.header("content-range") ?? ""
        let digits = field.utf8.dropFirst(6).prefix { $0 != UInt8(ascii: "-") }
        guard field.utf8.starts(with: "bytes ".utf8), let first = UInt64(Substring(digits)), first <= expected else {
            throw ReplicationError(
                domain: .http, code: 502, message: "asked for the bytes from \(expected) on, the peer sent others (Content-Range: \(field.prefix(60)))")
        }
        return first
    }

    /// How far it came; a class, since the pieces are taken by a closure.
    private final class Progress: Sendable {
        private struct Bytes {
            /// That are here.
            var count: UInt64 = 0
            /// Where in the attachment the next piece of the present answer begins.
            var position: UInt64 = 0
        }

        private let bytes = Mutex(Bytes())
        var count: UInt64 { bytes.withLock { $0.count } }
        var position: UInt64 {
            get { bytes.withLock { $0.position } }
            set { bytes.withLock { $0.position = newValue } }
        }

        /// What of a piece is not here yet.
        func advance(_ piece: ByteBuffer) -> ByteBuffer? {
            bytes.withLock { bytes in
                let known = bytes.count - min(bytes.count, bytes.position)
                bytes.position += UInt64(piece.readableBytes)
                guard bytes.position > bytes.count else { return nil }
                bytes.count = bytes.position
                return piece.getSlice(at: piece.readerIndex + Int(known), length: piece.readableBytes - Int(known))
            }
        }
    }
}
