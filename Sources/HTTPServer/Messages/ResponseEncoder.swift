import NIOCore
import NIOHTTP1

/// Encodes one response: its header, its body as it is produced, and its end. Independent of any socket.
struct ResponseEncoder {
    enum Progress: Equatable {
        case notBegun
        /// The header was sent. `remaining` bytes must follow; nil if chunks or the end of the connection determine the length.
        case streaming(framing: ResponseHead.Framing, remaining: Int?)
        /// Complete.
        case written
    }

    /// The request was HEAD: the header is the same, but no body follows.
    let isHead: Bool
    /// The client speaks HTTP/1.1, so it understands chunks.
    let isModern: Bool
    private(set) var progress = Progress.notBegun
    /// As announced to the client in the header.
    private(set) var keepAlive = false

    init(_ head: HTTPRequestHead) {
        isHead = head.method == .HEAD
        isModern = head.version.minor >= 1
    }

    /// The last message on a connection, whether or not its request was understood.
    static func refusal(_ error: HTTPError, isHead: Bool) -> ByteBuffer {
        var encoder = ResponseEncoder(HTTPRequestHead(version: .http1_1, method: isHead ? .HEAD : .GET, uri: "/"))
        let response = error.response
        guard case .buffer(let bytes) = response.body else { return ByteBuffer() }
        return encoder.whole(response, bytes, keepAlive: false)
    }

    /// A response with its whole body.
    mutating func whole(_ response: HTTPResponse, _ bytes: ByteBuffer, keepAlive: Bool) -> ByteBuffer {
        self.keepAlive = keepAlive
        progress = .written
        let hasBody = !ResponseHead.isBodyless(response.status)
        var out = ByteBufferAllocator().buffer(capacity: 256 + bytes.readableBytes)
        let framing: ResponseHead.Framing = hasBody ? .length(bytes.readableBytes) : .none
        ResponseHead.write(status: response.status, headers: response.headers, framing: framing, keepAlive: keepAlive, into: &out)
        if hasBody, !isHead { out.writeImmutableBuffer(bytes) }
        return out
    }

    /// The header of a response whose body follows, and whether a body may follow at all.
    mutating func begin(_ response: HTTPResponse, length: Int?, keepAlive: Bool) -> (header: ByteBuffer, hasBody: Bool) {
        let isBodyless = ResponseHead.isBodyless(response.status)
        let framing: ResponseHead.Framing = isBodyless ? .none : length.map { .length($0) } ?? (isModern ? .chunked : .untilClose)
        self.keepAlive = keepAlive && framing != .untilClose
        let hasBody = !isBodyless && !isHead
        progress = .streaming(framing: hasBody ? framing : .none, remaining: hasBody ? length : nil)
        var out = ByteBufferAllocator().buffer(capacity: 256)
        ResponseHead.write(status: response.status, headers: response.headers, framing: framing, keepAlive: self.keepAlive, into: &out)
        return (out, hasBody)
    }

    /// One piece of the body, in wire format.
    mutating func frame(_ piece: ByteBuffer) throws -> [ByteBuffer] {
        guard case .streaming(let framing, let remaining) = progress else { throw ChannelError.ioOnClosedChannel }
        if let remaining {
            guard piece.readableBytes <= remaining else { throw HTTPError(500, "the response is longer than its declared length") }
            progress = .streaming(framing: framing, remaining: remaining - piece.readableBytes)
        }
        guard framing == .chunked else { return [piece] }
        let size = ByteBuffer(string: String(piece.readableBytes, radix: 16) + "\r\n")
        return [size, piece, ByteBuffer(staticString: "\r\n")]
    }

    /// The end of the body in wire format, if it has one.
    mutating func end() throws -> ByteBuffer? {
        guard case .streaming(let framing, let remaining) = progress else { throw ChannelError.ioOnClosedChannel }
        if let remaining, remaining > 0 { throw HTTPError(500, "the response is \(remaining) bytes shorter than its declared length") }
        progress = .written
        return framing == .chunked ? ByteBuffer(staticString: "0\r\n\r\n") : nil
    }
}
