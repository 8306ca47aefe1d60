import CZlib
import NIOCore

/// The four bytes that end every sync flush. They are not transmitted.
private let syncTail: (UInt8, UInt8, UInt8, UInt8) = (0, 0, 0xff, 0xff)
private let syncTailLength = 4
/// Raw deflate with a 32 KiB window, which a receiver needs whatever window the sender uses.
private let fullWindowBits: Int32 = -15

/// How much memory the compression of one direction takes. Every peer can read the output of any choice.
///
/// Measured on 20,000 `rev` messages of sensor readings with their `changes` (7.4 MB, 370 bytes each) and on 2,000 documents of 50 readings (5 MB),
/// at level 6, relative to `.full`. LiteCore's own settings (32 KiB, memory level 9) take 389 KiB and a tenth more time for the same output size.
/// Memory levels 7 and 6 save 64 and 96 KiB, for 0.0 and 0.1 % more output but 8 and 15 % more time. A 16 KiB window costs 14 % of output size on
/// revisions, because the IDs sent in `changes` have left the window. `.small` costs 15 to 17 % on revisions, saves 1 % on the longer documents and
/// is 3 to 24 % faster.
public enum DeflaterSize: Sendable {
    /// 262 KiB.
    case full
    /// 70 KiB.
    case small

    var windowBits: Int32 { self == .full ? -15 : -13 }
    var memoryLevel: Int32 { self == .full ? 8 : 6 }
    /// What zlib allocates, in bytes: `(1 << (window + 2)) + (1 << (memory level + 9))`, plus its state.
    var bytes: Int { (1 << (2 - Int(windowBits))) + (1 << (Int(memoryLevel) + 9)) + 6_144 }
}

/// Compresses one direction of a connection as a single raw deflate stream that is flushed after each frame and never ends. Its memory is allocated
/// by the first compressed frame.
///
/// Sendable although it holds a pointer: zlib's state is reachable only through this value, which cannot be copied.
struct Deflater: ~Copyable, @unchecked Sendable {
    /// Room reserved in a frame for the growth of incompressible data: one stored block and the flush.
    static let maximumGrowth = 16

    /// The levels at which zlib accepts the first match it finds; ``QuickDeflater`` does the same in a third of the time.
    private static let quickLevels: ClosedRange<Int32> = 1...3

    private var stream: UnsafeMutablePointer<z_stream>?
    private var quick: QuickDeflater?
    private let level: Int32
    private var isUsable: Bool
    /// Changes have no effect once the memory is allocated.
    var size = DeflaterSize.full

    /// Whether the memory is allocated.
    var exists: Bool { heldBytes > 0 }
    /// Memory allocated, in bytes.
    private(set) var heldBytes = 0

    /// Memory that the first compressed frame allocates, in bytes.
    var bytes: Int { isQuick ? QuickDeflater.bytes : isUsable ? size.bytes : 0 }

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

    /// Releases the memory. Each frame ends on a byte and block boundary, so a new stream can continue from there.
    mutating func release() {
        quick = nil
        heldBytes = 0
        guard let stream else { return }
        deflateEnd(stream)
        stream.deallocate()
        self.stream = nil
    }

    /// Appends `first` and then `second`, compressed, to `output`. Returns false if nothing was written: send the frame uncompressed then.
    mutating func deflate(_ first: ByteBuffer, _ second: ByteBuffer?, into output: inout ByteBuffer) -> Bool {
        if isUsable, isQuick {
            let isAlone = (second?.readableBytes ?? 0) == 0
            deflateQuickly(first, isLast: isAlone, &output)
            if let second, !isAlone { deflateQuickly(second, isLast: true, &output) }
            return true
        }
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

    private var isQuick: Bool { stream == nil && (exists || size == .full && Self.quickLevels.contains(level)) }

    private mutating func deflateQuickly(_ input: ByteBuffer, isLast: Bool, _ output: inout ByteBuffer) {
        if heldBytes == 0 {
            quick = QuickDeflater()
            heldBytes = QuickDeflater.bytes
        }
        input.withUnsafeReadableBytes { bytes in
            var rest = bytes[...]
            repeat {
                let block = rest.prefix(QuickDeflater.blockLength)
                rest = rest.dropFirst(block.count)
                quick?.deflate(UnsafeRawBufferPointer(rebasing: block), isLast: isLast && rest.isEmpty) { room, write in
                    output.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { $0.baseAddress.map(write) ?? 0 }
                }
            } while !rest.isEmpty
        }
    }

    private mutating func prepare() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        let structSize = Int32(MemoryLayout<z_stream>.size)
        guard deflateInit2_(
            fresh, level, Z_DEFLATED, size.windowBits, size.memoryLevel, Z_DEFAULT_STRATEGY, zlibVersion(), structSize) == Z_OK
        else {
            fresh.deallocate()
            isUsable = false
            return nil
        }
        stream = fresh
        heldBytes = size.bytes
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

/// Decompresses one direction of a connection. Its 40 KB are allocated by the first compressed frame.
///
/// Sendable although it holds a pointer: zlib's state is reachable only through this value, which cannot be copied.
struct Inflater: ~Copyable, @unchecked Sendable {
    enum Outcome {
        /// All of the frame's data was produced.
        case done
        /// The output is full: call again.
        case full
        case failed(String)
    }

    /// The data of one frame while it is inflated; the sync tail follows it.
    struct Input {
        private(set) var frame: ByteBuffer
        /// Relative to the frame's reader index.
        fileprivate var offset: Int
        fileprivate var length: Int
        fileprivate var tailLength = syncTailLength

        init(_ frame: ByteBuffer, _ offset: Int, _ length: Int) {
            self.frame = frame
            self.offset = offset
            self.length = length
        }

        /// Input bytes left, without the tail.
        var remaining: Int { length }
    }

    /// Size of zlib's window and state, in bytes.
    static let bytes = 32_768 + 7_160 + MemoryLayout<z_stream>.size

    private var stream: UnsafeMutablePointer<z_stream>?

    /// Memory allocated, in bytes.
    var heldBytes: Int { stream == nil ? 0 : Self.bytes }

    init() {}

    deinit {
        guard let stream else { return }
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Inflates what is left of `input`, appending up to `room` bytes to `output`. After `.failed` the stream is unusable.
    mutating func inflate(_ input: inout Input, into output: inout ByteBuffer, room: Int) -> Outcome {
        guard let stream = prepare() else { return .failed("out of memory") }
        var room = room
        if input.length > 0 {
            let (offset, length) = (input.offset, input.length)
            let outcome = input.frame.withUnsafeReadableBytes { bytes in
                run(stream, UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + length]), &output, &room)
            }
            input.length = Int(stream.pointee.avail_in)
            input.offset += length - input.length
            guard case .done = outcome else { return outcome }
        }
        let start = syncTailLength - input.tailLength
        let outcome = withUnsafeBytes(of: syncTail) {
            run(stream, UnsafeRawBufferPointer(rebasing: $0[start...]), &output, &room)
        }
        input.tailLength = Int(stream.pointee.avail_in)
        return outcome
    }

    private mutating func prepare() -> UnsafeMutablePointer<z_stream>? {
        if let stream { return stream }
        let fresh = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        fresh.initialize(to: z_stream())
        guard inflateInit2_(fresh, fullWindowBits, zlibVersion(), Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            fresh.deallocate()
            return nil
        }
        stream = fresh
        return fresh
    }

    private func run(
        _ stream: UnsafeMutablePointer<z_stream>, _ input: UnsafeRawBufferPointer, _ output: inout ByteBuffer, _ room: inout Int
    ) -> Outcome {
        // zlib does not write to its input; its C declaration merely lacks the const.
        stream.pointee.next_in = UnsafeMutableRawPointer(mutating: input.baseAddress)?.assumingMemoryBound(to: UInt8.self)
        stream.pointee.avail_in = UInt32(input.count)
        while room > 0 {
            var code = Z_OK
            let most = room
            room -= output.writeWithUnsafeMutableBytes(minimumWritableBytes: min(512, most)) { place in
                let count = min(place.count, most, Int(UInt32.max))
                stream.pointee.next_out = place.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.pointee.avail_out = UInt32(count)
                code = CZlib.inflate(stream, Z_SYNC_FLUSH)
                return count - Int(stream.pointee.avail_out)
            }
            switch code {
            case Z_OK, Z_BUF_ERROR: break
            case Z_STREAM_END: return .failed("the stream has a last block")
            default: return .failed(stream.pointee.msg.map { String(cString: $0) } ?? "zlib error \(code)")
            }
            if stream.pointee.avail_out > 0 {
                return stream.pointee.avail_in == 0 ? .done : .failed("no progress")
            }
        }
        return .full
    }
}
