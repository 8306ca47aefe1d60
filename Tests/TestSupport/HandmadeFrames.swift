/// BLIP frames made by hand according to the specification, correct or not.
package struct HandmadeFrames {
    private var checksum: UInt32 = 0
    private var number: UInt64 = 0

    package init() {}

    /// The next request in one frame.
    ///
    /// - Parameter properties: the bytes of the block as they are sent.
    package mutating func request(properties: [UInt8], body: [UInt8] = []) -> [UInt8] {
        message(Self.varint(UInt64(properties.count)) + properties + body)
    }

    /// The next request, with its payload exactly as given.
    package mutating func message(_ payload: [UInt8], flags: UInt8 = 0) -> [UInt8] {
        number += 1
        return frame(number, flags, payload)
    }

    /// A frame with the checksum that it should have.
    package mutating func frame(_ number: UInt64, _ flags: UInt8, _ payload: [UInt8]) -> [UInt8] {
        checksum = Self.checksum(checksum, payload)
        return Self.varint(number) + [flags] + payload + Self.bigEndian(checksum)
    }

    package static func properties(_ pairs: (String, String)...) -> [UInt8] {
        pairs.flatMap { Array($0.utf8) + [0] + Array($1.utf8) + [0] }
    }

    package static func bigEndian(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

    package static func varint(_ value: UInt64) -> [UInt8] {
        var rest = value
        var bytes: [UInt8] = []
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    /// CRC-32 of IEEE 802.3, continued from `value`.
    package static func checksum(_ value: UInt32, _ bytes: [UInt8]) -> UInt32 {
        var crc = ~value
        bytes.withUnsafeBufferPointer { bytes in
            table.withUnsafeBufferPointer { table in
                for byte in bytes { crc = crc >> 8 ^ table[Int(UInt8(truncatingIfNeeded: crc) ^ byte)] }
            }
        }
        return ~crc
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { crc, _ in crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
    }

    /// A reply that came in one uncompressed frame: its type, its properties as text with `|` for NUL, and its body.
    package static func reply(_ frame: [UInt8]) -> (type: UInt8, properties: String, body: String)? {
        guard frame.count >= 7, frame[0] < 0x80 else { return nil }
        let payload = frame[2..<(frame.count - 4)]
        var length = 0
        var shift = 0
        var at = payload.startIndex
        while at < payload.endIndex {
            length |= Int(payload[at] & 0x7F) << shift
            shift += 7
            at += 1
            if payload[at - 1] < 0x80 { break }
        }
        guard at + length <= payload.endIndex else { return nil }
        let text = payload[at..<(at + length)].map { $0 == 0 ? UInt8(ascii: "|") : $0 }
        return (frame[1] & 7, String(decoding: text, as: UTF8.self), String(decoding: payload[(at + length)...], as: UTF8.self))
    }
}
