import CZlib
import Environment
import HTTPServer
import NIOCore

/// Decompresses gzip incrementally.
final class Inflater {
    /// Small, because many requests may be decompressed at once.
    private static let outputBytes = 16 << 10
    /// zlib's state and window, unprocessed input, and an output buffer with its copies.
    let memory = (40 << 10) + (16 << 10) + 2 * Inflater.outputBytes
    private let stream: UnsafeMutablePointer<z_stream>
    private var input: [UInt8] = []
    private(set) var isComplete = false

    init?() {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        // Adding 16 selects the gzip format.
        guard inflateInit2_(stream, 15 + 16, zlibVersion(), Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            stream.deallocate()
            return nil
        }
        self.stream = stream
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// There are bytes after the end.
    var hasMore: Bool { isComplete && !input.isEmpty }

    /// Checks a body that has been received completely.
    ///
    /// - Throws: ``HTTPError`` 400.
    func requireEnd() throws(HTTPError) {
        guard isComplete, !hasMore else { throw CouchError.badRequest("the gzip-encoded body is cut short, or more follows it") }
    }

    /// After the end it keeps only the first bytes, to show that there are some.
    func feed(_ bytes: [UInt8]) {
        if !hasMore { input += bytes }
    }

    /// At most ``outputBytes`` of decompressed data; nil if more input is needed.
    ///
    /// - Throws: ``HTTPError`` 400 for data that is not gzip.
    func next() throws(HTTPError) -> [UInt8]? {
        guard !input.isEmpty, !isComplete else { return nil }
        var status = Z_OK
        var used = 0
        let output = [UInt8](unsafeUninitializedCapacity: Self.outputBytes) { out, count in
            input.withUnsafeMutableBufferPointer { bytes in
                stream.pointee.next_in = bytes.baseAddress
                stream.pointee.avail_in = UInt32(bytes.count)
                stream.pointee.next_out = out.baseAddress
                stream.pointee.avail_out = UInt32(out.count)
                status = inflate(stream, Z_NO_FLUSH)
                used = bytes.count - Int(stream.pointee.avail_in)
            }
            count = out.count - Int(stream.pointee.avail_out)
        }
        input.removeFirst(used)
        guard status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR else { throw CouchError.badRequest("the body is not valid gzip") }
        isComplete = status == Z_STREAM_END
        return output.isEmpty ? nil : output
    }
}

extension Inflater: BodyUnpacker {
    func feed(_ piece: ByteBuffer) { feed(Array(piece.readableBytesView)) }
    func nextPiece() throws(HTTPError) -> ByteBuffer? {
        guard let piece = try next() else {
            // More input will not make it valid.
            if hasMore { try requireEnd() }
            return nil
        }
        return ByteBuffer(bytes: piece)
    }
}

/// Compresses an answer with gzip, incrementally.
final class Gzip: @unchecked Sendable {
    /// zlib's memory for the window size and memory level used below.
    static let memory = 80 << 10
    // Unchecked: only one answer uses it, one piece after another.
    private let stream: UnsafeMutablePointer<z_stream>
    private let reservation: MemoryBudget.Reservation

    init?(_ reservation: MemoryBudget.Reservation) {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        // A small window and the fastest level: a gateway has many clients and little memory.
        guard deflateInit2_(stream, 1, Z_DEFLATED, 13 + 16, 6, Z_DEFAULT_STRATEGY, zlibVersion(), Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            stream.deallocate()
            return nil
        }
        (self.stream, self.reservation) = (stream, reservation)
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    func pack(_ bytes: [UInt8], isLast: Bool = false) -> [UInt8] {
        var input = bytes
        var packed: [UInt8] = []
        input.withUnsafeMutableBufferPointer { bytes in
            stream.pointee.next_in = bytes.baseAddress
            stream.pointee.avail_in = UInt32(bytes.count)
            var isFull = true
            while isFull {
                packed += [UInt8](unsafeUninitializedCapacity: 16 << 10) { out, count in
                    stream.pointee.next_out = out.baseAddress
                    stream.pointee.avail_out = UInt32(out.count)
                    _ = deflate(stream, isLast ? Z_FINISH : Z_NO_FLUSH)
                    count = out.count - Int(stream.pointee.avail_out)
                    isFull = count == out.count
                }
            }
        }
        return packed
    }
}
