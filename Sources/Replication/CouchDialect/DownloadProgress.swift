import Digests
import Interfaces
import NIOCore
import Synchronization

/// The progress of an attachment over one or several answers; a class, since a closure takes the pieces.
final class DownloadProgress: Sendable {
    /// The peer's attachment is not the one whose beginning is here.
    struct Changed: Error {}

    private struct State {
        /// Number of bytes that are here.
        var count: UInt64 = 0
        /// Offset in the attachment at which the next piece of the current answer starts.
        var position: UInt64 = 0
        var hasBegun = false
        /// Number of answers that contributed data.
        var answers = 0
        /// The first answer's entity tag, if it is a strong one.
        var tag: String?
        /// According to the document, or to the first answer.
        var total: UInt64?
        /// Only the end of the connection marks the end of the current answer.
        var endsWithConnection = false
        var hasher: MD5Hasher?
    }

    private let length: UInt64?
    private let md5: [UInt8]?
    private let state: Mutex<State>

    init(length: UInt64?, md5: [UInt8]?) {
        (self.length, self.md5) = (length, md5)
        state = Mutex(State(total: length, hasher: md5 == nil ? nil : MD5Hasher()))
    }

    var count: UInt64 { state.withLock { $0.count } }
    var tag: String? { state.withLock { $0.tag } }
    var isWhole: Bool { state.withLock { $0.count == $0.total } }
    /// Whether it was assembled from several answers.
    var isJoined: Bool { state.withLock { $0.answers > 1 } }
    /// May only be called at the end.
    var isDamaged: Bool {
        state.withLock { state in
            guard let md5, let hasher = state.hasher else { return false }
            state.hasher = nil
            return hasher.finalize() != md5
        }
    }

    /// Why the data received may be incomplete.
    var shortness: ReplicationError? {
        state.withLock { state in
            if let total = state.total {
                guard state.count < total else { return nil }
                return ReplicationError(network: .connectionReset, message: "the answer ended behind \(state.count) bytes of an attachment of \(total)")
            }
            guard state.endsWithConnection, md5 == nil else { return nil }
            return ReplicationError(
                domain: .http, code: 502, message: "nothing says how long the attachment is: neither the document nor Content-Length nor Content-Range")
        }
    }

    /// Starts over.
    func begin() {
        state.withLock { $0 = State(total: length, hasher: md5 == nil ? nil : MD5Hasher()) }
    }

    /// Another answer arrives.
    func open() {
        state.withLock { ($0.position, $0.hasBegun, $0.endsWithConnection) = (0, false, false) }
    }

    func end(at count: UInt64) {
        state.withLock { $0.total = count }
    }

    /// Examines the head of a successful answer, once.
    ///
    /// - Returns: whether it starts over, so that earlier data is useless.
    /// - Throws: ``Changed`` if it is the rest of something else.
    func begins(_ head: PeerAnswer, asked: UInt64) throws -> Bool {
        try state.withLock { state in
            guard !state.hasBegun else { return false }
            state.hasBegun = true
            let tag = head.header("etag").flatMap { $0.utf8.first == UInt8(ascii: "\"") ? $0 : nil }
            let total: UInt64?
            if head.status == 206 {
                let range = try Self.range(head, asked)
                (state.position, total) = (range.first, range.total)
            } else {
                let isPacked = head.header("content-encoding").map { $0.lowercased() != "identity" } ?? false
                let length = head.header("content-length").flatMap { UInt64($0) }
                total = isPacked ? nil : length
                state.endsWithConnection = length == nil && head.header("transfer-encoding") == nil
            }
            let isOther = state.count > 0
                && (state.tag != nil && tag != nil && tag != state.tag || length == nil && state.total != nil && total != nil && total != state.total)
            if isOther {
                guard head.status != 206 else { throw Changed() }
                state = State(hasBegun: true, total: length, endsWithConnection: state.endsWithConnection, hasher: md5 == nil ? nil : MD5Hasher())
            }
            state.answers += 1
            if state.count == 0 { state.tag = tag }
            state.total = state.total ?? total
            return isOther
        }
    }

    /// The start of a partial answer, and the total length: `Content-Range: bytes 100-199/200`.
    private static func range(_ answer: PeerAnswer, _ expected: UInt64) throws -> (first: UInt64, total: UInt64?) {
        let field = answer.header("content-range") ?? ""
        let digits = field.utf8.dropFirst(6).prefix { $0 != UInt8(ascii: "-") }
        guard field.utf8.starts(with: "bytes ".utf8), let first = UInt64(Substring(digits)), first <= expected else {
            throw ReplicationError(
                domain: .http, code: 502, message: "asked for the bytes from \(expected) on, the peer sent others (Content-Range: \(field.prefix(60)))")
        }
        return (first, field.utf8.lastIndex(of: UInt8(ascii: "/")).flatMap { UInt64(field[field.utf8.index(after: $0)...]) })
    }

    /// The part of a piece that is not here yet.
    func advance(_ piece: ByteBuffer) -> ByteBuffer? {
        state.withLock { state in
            let known = state.count - min(state.count, state.position)
            state.position += UInt64(piece.readableBytes)
            guard state.position > state.count else { return nil }
            state.count = state.position
            let new = piece.getSlice(at: piece.readerIndex + Int(known), length: piece.readableBytes - Int(known))
            if let hasher = state.hasher, let new { hasher.update([UInt8](new.readableBytesView)) }
            return new
        }
    }
}
