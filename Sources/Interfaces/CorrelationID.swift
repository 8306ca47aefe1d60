import Environment

/// The id by which both sides of a connection can find each other's log lines: the `X-Correlation-Id` header, sent with the upgrade request.
public enum CorrelationID {
    public static let header = "X-Correlation-Id"
    /// `correlation_id_bytes`: longer ones from a peer are not adopted.
    public static let longest = 64

    public static func make(_ random: any RandomSource) -> String {
        let digits = String(random.next(), radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// The id sent by a peer, if it is suitable for a log; nil otherwise.
    public static func accepted(_ text: String?) -> String? {
        guard let text, (1...longest).contains(text.utf8.count), text.utf8.allSatisfy(isPlain) else { return nil }
        return text
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
        default: false
        }
    }
}
