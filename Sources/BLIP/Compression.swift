import CZlib
import NIOCore

/// The four bytes that end every sync flush. They do not travel.
private let syncTail: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0xff, 0xff)
private let syncTailLength = 4
/// Raw deflate with a window of 32 KiB.
private let rawWindowBits: Int32 = -15
/// LiteCore uses 9. The tables of 8 fit processor caches better (a tenth faster, the same size within 0.1 %), and the
/// peer cannot tell.
private let memoryLevel: Int32 = 8

/// Compresses one direction of a connection: one raw deflate stream that is flushed at each frame and never ends.
/// It takes its 270 KB only with the first compressed frame.
///
/// Sendable although it holds a pointer: zlib's state is reachable through this value only, which cannot be copied.
struct Deflater: ~Copyable, @unchecked Sendable {
    /// Room kept in a frame for what incompressible data grows by: one stored block and the flush.
    static let worstGrowth = 16

    private var stream: UnsafeMutablePointer<z_stream>?
    private let level: Int32
    private var isUsable: Bool

    /// Level 0 (or below, or above 9: see `init`) turns compression off.
    init(level: Int32) {
        self.level = min(level, 9)
        isUsable = level > 0
    }

    deinit {
        guard let stream else { return }
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Appends `first` and then `second`, compressed, to `output`. False: nothing was written, send the frame plain.
    mutating func deflate(_ first: ByteBuffer, _ second: ByteBuffer?, into output: inout ByteBuffer) -> Bool {
        guard isUsable, let stream = prepare() else { return false }
        let start = output.writerIndex
        if let second, second.readableBytes > 0 {
            isUsable = run(stream, first, Z_NO_FLUSH, &output) && run(stream, second, Z_SYNC_FLUSH, &output)
        } else {
            isUsable = run(stream, first, Z_SYNC_FLUSH, &output)
        }
        guard isUsable, output.writerIndex - start > syncTailLength else {
            isUsable = false
            output.moveWriterIndex(to: start)
            return false
        }
        output.moveWriterIndex(to: output.writerIndex - syncTailLength)
        return true
    }

    private mutating func prepare() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        let size = Int32(MemoryLayout<z_stream>.size)
        guard deflateInit2_(fresh, level, Z_DEFLATED, rawWindowBits, memoryLevel, Z_DEFAULT_STRATEGY, zlibVersion(), size) == Z_OK else {
            fresh.deallocate()
            isUsable = false
            return nil
        }
        stream = fresh
        return fresh
    }

    private func run(_ stream: UnsafeMutablePointer<z_stream>, _ input: ByteBuffer, _ flush: Int32, _ output: inout ByteBuffer) -> Bool {
        input.withUnsafeReadableBytes { bytes in
            // zlib does not write to its input; its C declaration merely lacks the const.
            stream.pointee.next_in = UnsafeMutableRawPointer(mutating: bytes.baseAddress)?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_in = UInt32(bytes.count)
            while true {
                var code = Z_OK
                output.writeWithUnsafeMutableBytes(minimumWritableBytes: 64) { room in
                    let count = min(room.count, Int(UInt32.max))
                    stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    stream.pointee.avail_out = UInt32(count)
                    code = CZlib.deflate(stream, flush)
                    return count - Int(stream.pointee.avail_out)
                }
                guard code == Z_OK || code == Z_BUF_ERROR else { return false }
                if stream.pointee.avail_out > 0 { return stream.pointee.avail_in == 0 }
            }
        }
    }
}

/// Decompresses one direction of a connection. It takes its 40 KB only with the first compressed frame.
///
/// Sendable although it holds a pointer: zlib's state is reachable through this value only, which cannot be copied.
struct Inflater: ~Copyable, @unchecked Sendable {
    enum Outcome {
        case done
        /// More would come out than is allowed.
        case tooLong
        case failed(String)
    }

    private var stream: UnsafeMutablePointer<z_stream>?

    init() {}

    deinit {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Inflates `length` bytes that start `offset` after the frame's reader index, appending to `output`, which may come to
    /// hold no more than `maximum` bytes in all. Anything but `.done` leaves the stream unusable.
    mutating func inflate(_ frame: ByteBuffer, _ offset: Int, _ length: Int, into output: inout ByteBuffer, maximum: Int) -> Outcome {
        guard let stream = prepare() else { return .failed("out of memory") }
        let outcome = frame.withUnsafeReadableBytes { bytes in
            run(stream, UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + length]), &output, maximum)
        }
        guard case .done = outcome else { return outcome }
        return withUnsafeBytes(of: syncTail) { run(stream, $0, &output, maximum) }
    }

    private mutating func prepare() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        guard inflateInit2_(fresh, rawWindowBits, zlibVersion(), Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }

    private func run(
        _ stream: UnsafeMutablePointer<z_stream>, _ input: UnsafeRawBufferPointer, _ output: inout ByteBuffer, _ maximum: Int
    ) -> Outcome {
        // zlib does not write to its input; its C declaration merely lacks the const.
        stream.pointee.next_in = UnsafeMutableRawPointer(mutating: input.baseAddress)?.assumingMemoryBound(to: UInt8.self)
        stream.pointee.avail_in = UInt32(input.count)
        while true {
            // One byte beyond what is allowed tells "full" from "too long".
            let allowed = maximum - output.readableBytes + 1
            var code = Z_OK
            let produced = output.writeWithUnsafeMutableBytes(minimumWritableBytes: 512) { room in
                let count = min(room.count, allowed, Int(UInt32.max))
                stream.pointee.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.avail_out = UInt32(count)
                code = CZlib.inflate(stream, Z_SYNC_FLUSH)
                return count - Int(stream.pointee.avail_out)
            }
            if produced >= allowed { return .tooLong }
            switch code {
            case Z_OK, Z_BUF_ERROR: break
            case Z_STREAM_END: return .failed("the stream has a last block")
            default: return .failed(stream.pointee.msg.map { String(cString: $0) } ?? "zlib error \(code)")
            }
            if stream.pointee.avail_out > 0 {
                return stream.pointee.avail_in == 0 ? .done : .failed("no progress")
            }
        }
    }
}
