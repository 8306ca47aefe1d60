/// A protocol violation by the peer. Always fatal: checksum and compression state span the whole connection, so nothing after the violation can be
/// trusted. Close the WebSocket with ``closeCode``.
public enum BLIPError: Error, Sendable, Equatable {
    /// The frame ends inside a number of its header, or an acknowledgement inside its count.
    case truncatedNumber
    /// A variable-length number does not fit 64 bits (32 for the length of properties).
    case numberOverflow
    /// A frame too short to contain its checksum. `length` is the number of bytes after the header.
    case frameTooShort(length: Int)
    /// The running checksum differs: a frame was lost, altered or checksummed differently.
    case checksumMismatch(expected: UInt32, found: UInt32, message: UInt64)
    /// The compressed data of a frame is invalid. `reason` comes from zlib.
    case compression(reason: String, message: UInt64)
    /// A request is out of order: numbers start at 1 and increase by 1.
    case requestNumber(found: UInt64, expected: UInt64)
    /// A reply to a request that was never sent, is not sent completely, or is already answered.
    case unexpectedReply(number: UInt64)
    /// The properties of a message are malformed.
    case properties(reason: PropertiesFault, message: UInt64)
    /// A bound of ``BLIPLimits`` was exceeded; `limit` is the name of its property.
    case limitExceeded(_ limit: String, value: Int, maximum: Int)
    /// The connection had already ended, by an earlier error or by `fail()`.
    case connectionFailed

    public enum PropertiesFault: String, Sendable, Equatable {
        case longerThanMessage = "the block is longer than the message"
        case unterminated = "the last string has no final NUL"
        case oddStrings = "a key without a value"
        case missing = "the message is empty: even no properties cost one length byte"
    }

    /// WebSocket close code to send: 1011, as LiteCore does after a BLIP error.
    public var closeCode: UInt16 { 1011 }
}

extension BLIPError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .truncatedNumber:
            "BLIP: a frame ends inside a number; the peer or something between cuts WebSocket messages"
        case .numberOverflow:
            "BLIP: a number in a frame is too large; the peer does not speak BLIP 3"
        case .frameTooShort(let length):
            "BLIP: a frame has \(length) bytes after its header, its checksum alone takes 4"
        case .checksumMismatch(let expected, let found, let message):
            "BLIP: checksum of message \(message) is \(hex(found)), expected \(hex(expected)); a frame was lost or changed on the way"
        case .compression(let reason, let message):
            "BLIP: compressed data of message \(message) cannot be read (\(reason))"
        case .requestNumber(let found, let expected):
            "BLIP: request number \(found) received, expected \(expected) or one not finished; a frame was lost or repeated"
        case .unexpectedReply(let number):
            "BLIP: reply to request \(number), which awaits none"
        case .properties(let reason, let message):
            "BLIP: properties of message \(message) are malformed: \(reason.rawValue)"
        case .limitExceeded(let limit, let value, let maximum):
            "BLIP: limit \(limit) exceeded: \(value), allowed \(maximum)"
        case .connectionFailed:
            "BLIP: the connection has ended"
        }
    }

    private func hex(_ value: UInt32) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }
}
