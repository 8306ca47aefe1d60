import Encodings

/// The author of versions: 16 bytes that a database gives itself, written as base64 without padding, 22 characters (replication.md
/// section 7).
public struct SourceID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public static let textBytes = 22

    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// Nil for other than 16 bytes.
    public init?(_ bytes: some Swift.Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        low = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Nil for what is not 22 characters of base64.
    public init?(text: some StringProtocol) {
        guard text.utf8.count == Self.textBytes, let bytes = Base64.decode(String(text) + "==") else { return nil }
        self.init(bytes)
    }

    /// Stands for the author of revisions of a tree where they are compared with versions: the base64 bytes of
    /// "Revision+Tree+Encoding".
    public static let revisionTree = SourceID(high: 0x45EB_E2B2_2A27_F93A, low: 0xDE7B_E127_7287_629E)

    public var bytes: [UInt8] {
        [high, low].flatMap { half in (0..<8).map { UInt8(truncatingIfNeeded: half >> (56 - 8 * UInt64($0))) } }
    }

    public var description: String { String(Base64.encode(bytes).dropLast(2)) }

    public static func < (a: SourceID, b: SourceID) -> Bool { (a.high, a.low) < (b.high, b.low) }
}
