import CZlib
import Encodings
import NIOCore

/// Message types, bits 0 to 2 of a frame's flags. 3, 6 and 7 are ignored.
enum FrameType {
    static let request: UInt8 = 0
    static let reply: UInt8 = 1
    static let errorReply: UInt8 = 2
    static let acknowledgeRequest: UInt8 = 4
    static let acknowledgeReply: UInt8 = 5
    static let mask: UInt8 = 0x07
    static let checksumLength = 4
}

/// The header in front of a frame's payload.
struct FrameHeader {
    var number: UInt64
    /// The flags; bits from 0x80 up are dropped.
    var bits: UInt8
    /// Size of both numbers, in bytes.
    var length: Int

    var type: UInt8 { bits & FrameType.mask }
    var flags: BLIPFlags { BLIPFlags(rawValue: bits & ~FrameType.mask) }
    var isLast: Bool { !flags.contains(.moreComing) }

    init(_ frame: ByteBuffer) throws(BLIPError) {
        let (number, flags) = frame.withUnsafeReadableBytes { bytes in
            let number = Varint.read(bytes, at: 0)
            return (number, Varint.read(bytes, at: max(number.length, 0)))
        }
        self.number = try number.checked().value
        self.bits = UInt8(truncatingIfNeeded: try flags.checked().value)
        self.length = number.length + flags.length
    }
}

/// CRC-32 over all uncompressed payload bytes of one direction, over the lifetime of the connection.
struct RunningChecksum {
    private(set) var value: UInt32 = 0

    /// Adds `length` bytes that start `offset` after the buffer's reader index.
    @inline(__always)
    mutating func add(_ buffer: ByteBuffer, _ offset: Int, _ length: Int) {
        guard length > 0 else { return }
        let old = value
        value = buffer.withUnsafeReadableBytes { bytes in
            guard let base = bytes.baseAddress, offset >= 0, offset + length <= bytes.count else { return old }
            let start = (base + offset).assumingMemoryBound(to: UInt8.self)
            return UInt32(truncatingIfNeeded: crc32_z(UInt(old), start, length))
        }
    }
}
