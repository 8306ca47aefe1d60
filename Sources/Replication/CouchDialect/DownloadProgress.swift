import Digests
import Interfaces
import NIOCore
import Synchronization

/// How far an attachment came, over one answer or several; a class, since the pieces are taken by a closure.
final class DownloadProgress: Sendable {
    /// The peer has another attachment there than the one whose beginning is here.
    struct Changed: Error {}

    private struct State {
        /// Bytes that are here.
        var count: UInt64 = 0
        /// Where in the attachment the next piece of the present answer begins.
        var position: UInt64 = 0
        var hasBegun = false
        /// Answers of which something is here.
        var answers = 0
        /// The first answer's, if it is a strong one.
        var tag: String?
        /// As the document says, or the first answer.
        var total: UInt64?
        /// Nothing but the end of the connection says where the present answer ends.
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
    /// It was put together of several answers.
    var isJoined: Bool { state.withLock { $0.answers > 1 } }
    /// Only to be asked at the end.
    var isDamaged: Bool {
        state.withLock { state in
            guard let md5, let hasher = state.hasher else { return false }
            state.hasher = nil
            return hasher.finalize() != md5
        }
    }

    /// Why what came need not be all.
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

    /// All of it anew.
    func begin() {
        state.withLock { $0 = State(total: length, hasher: md5 == nil ? nil : MD5Hasher()) }
    }

    /// Another answer comes.
    func open() {
        state.withLock { ($0.position, $0.hasBegun, $0.endsWithConnection) = (0, false, false) }
    }

    func end(at count: UInt64) {
        state.withLock { $0.total = count }
    }

    /// Looks at the head of a good answer, once.
    ///
    /// - Returns: whether it begins anew, so that what came before is of no use.
    /// - Throws: ``Changed`` where it is the rest of something else.
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

    /// Where a partial answer begins, and what it is a part of: `Content-Range: bytes 100-199/200`.
    private static func range(_ answer: PeerAnswer, _ expected: UInt64) throws -> (first: UInt64, total: UInt64?) {
        let field = answer.header("content-range") ?? ""
        let digits = field.utf8.dropFirst(6).prefix { $0 != UInt8(ascii: "-") }
        guard field.utf8.starts(with: "bytes ".utf8), let first = UInt64(Substring(digits)), first <= expected else {
            throw ReplicationError(
                domain: .http, code: 502, message: "asked for the bytes from \(expected) on, the peer sent others (Content-Range: \(field.prefix(60)))")
        }
        return (first, field.utf8.lastIndex(of: UInt8(ascii: "/")).flatMap { UInt64(field[field.utf8.index(after: $0)...]) })
    }

    /// What of a piece is not here yet.
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
