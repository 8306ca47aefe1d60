import NIOCore

/// The payload of a CLOSE frame (RFC 6455, section 5.5.1).
struct CloseFrame: Equatable {
    static let noStatus: UInt16 = 1005
    static let abnormal: UInt16 = 1006

    var code: UInt16
    var reason: String

    /// Parses a payload; nil if it is a single byte or contains a code that must not be sent.
    init?(payload: ByteBuffer) {
        guard payload.readableBytes != 0 else {
            code = Self.noStatus
            reason = ""
            return
        }
        guard let code = payload.getInteger(at: payload.readerIndex, as: UInt16.self), Self.isSendable(code) else { return nil }
        self.code = code
        reason = String(decoding: payload.readableBytesView.dropFirst(2), as: UTF8.self)
    }

    /// Codes that are allowed in a frame: the assigned ones, those of libraries (3000+) and of applications (4000+).
    static func isSendable(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// The payload for a code and a reason, which is cut at a character boundary to the 123 bytes that fit.
    static func payload(code: UInt16, reason: String) -> [UInt8] {
        guard isSendable(code) else { return [] }
        var bytes = [UInt8(truncatingIfNeeded: code >> 8), UInt8(truncatingIfNeeded: code)]
        for scalar in reason.unicodeScalars {
            let encoded = UTF8.encode(scalar)
            guard let encoded, bytes.count + encoded.count <= 125 else { break }
            bytes += encoded
        }
        return bytes
    }
}
