import Environment
import NIOCore

/// Encodes WebSocket frames (RFC 6455, section 5.2), many into one buffer.
struct WebSocketEncoder {
    enum Opcode: UInt8 {
        case continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10
    }

    /// A buffer is passed on before it would grow beyond this; larger ones only burden the allocator.
    static let chunkBytes = 128 * 1024

    /// Nil if frames are not masked.
    private var keys: MaskKeys?

    /// - Parameter maskRandom: the source of keys for clients, which mask their frames; nil for servers, which do
    ///   not.
    init(maskRandom: (any RandomSource)?) {
        keys = maskRandom.map { MaskKeys($0) }
    }

    /// Encodes each message as one binary frame and emits buffers of about ``chunkBytes``.
    mutating func encode(_ messages: [ByteBuffer], allocator: ByteBufferAllocator, emit: (ByteBuffer) -> Void) {
        var at = messages.startIndex
        while at < messages.endIndex {
            var end = at
            var bytes = 0
            repeat {
                bytes += messages[end].readableBytes + 14
                end += 1
            } while end < messages.endIndex && bytes + messages[end].readableBytes + 14 <= Self.chunkBytes
            var out = allocator.buffer(capacity: bytes)
            while at < end {
                messages[at].withUnsafeReadableBytes { append(.binary, $0, to: &out) }
                at += 1
            }
            emit(out)
        }
    }

    /// One control frame.
    mutating func control(_ opcode: Opcode, _ payload: [UInt8], allocator: ByteBufferAllocator) -> ByteBuffer {
        var out = allocator.buffer(capacity: payload.count + 14)
        payload.withUnsafeBytes { append(opcode, $0, to: &out) }
        return out
    }

    @inline(__always)
    private mutating func append(_ opcode: Opcode, _ payload: UnsafeRawBufferPointer, to out: inout ByteBuffer) {
        let key = keys?.next() ?? 0
        let maskBit: UInt8 = keys == nil ? 0 : 0x80
        let count = payload.count
        out.writeWithUnsafeMutableBytes(minimumWritableBytes: count + 14) { target in
            target[0] = 0x80 | opcode.rawValue
            var at: Int
            if count < 126 {
                target[1] = maskBit | UInt8(truncatingIfNeeded: count)
                at = 2
            } else if count < 65536 {
                target[1] = maskBit | 126
                target.storeBytes(of: UInt16(truncatingIfNeeded: count).bigEndian, toByteOffset: 2, as: UInt16.self)
                at = 4
            } else {
                target[1] = maskBit | 127
                target.storeBytes(of: UInt64(count).bigEndian, toByteOffset: 2, as: UInt64.self)
                at = 10
            }
            if maskBit != 0 {
                target.storeBytes(of: key.littleEndian, toByteOffset: at, as: UInt32.self)
                at += 4
            }
            if count > 0, let from = payload.baseAddress, let base = target.baseAddress {
                if maskBit != 0 {
                    Masking.copy(from: from, to: base + at, count: count, key: key, phase: 0)
                } else {
                    (base + at).copyMemory(from: from, byteCount: count)
                }
            }
            return at + count
        }
    }
}
