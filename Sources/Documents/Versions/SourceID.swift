import Encodings

/// The author of versions: 16 bytes that a database assigns to itself, written as 22 characters of base64 without padding (replication.md section 7).
public struct SourceID: Hashable, Comparable, Sendable, CustomStringConvertible {
    public static let textBytes = 22

    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }

    /// Nil unless there are 16 bytes.
    public init?(_ bytes: some Swift.Collection<UInt8>) {
        guard bytes.count == 16 else { return nil }
        high = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        low = bytes.dropFirst(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Nil unless the text consists of 22 characters of base64.
    public init?(text: some StringProtocol) {
        var text = String(text)
        guard let read = text.withUTF8({ SourceID(utf8: $0[...]) }) else { return nil }
        self = read
    }

    /// The same from the text's bytes: a version is parsed for each row of a change list.
    init?(utf8 text: Slice<UnsafeBufferPointer<UInt8>>) {
        guard text.count == Self.textBytes else { return nil }
        var (high, low): (UInt64, UInt64) = (0, 0)
        var place = 0
        for character in text {
            guard let bits = Base64.bits(character).map({ UInt64($0) }) else { return nil }
            // The eleventh character spans both halves, and only two bits of the last one count: the others must be zero, so that a source has only
            // one text.
            switch place {
            case ..<10: high = high << 6 | bits
            case 10: (high, low) = (high << 4 | bits >> 2, bits & 3)
            case ..<21: low = low << 6 | bits
            default:
                guard bits & 15 == 0 else { return nil }
                low = low << 2 | bits >> 4
            }
            place += 1
        }
        (self.high, self.low) = (high, low)
    }

    static let zero = SourceID(high: 0, low: 0)

    /// Stands for the author of tree revisions when these are compared with versions: the base64 bytes of "Revision+Tree+Encoding".
    public static let revisionTree = SourceID(high: 0x45EB_E2B2_2A27_F93A, low: 0xDE7B_E127_7287_629E)

    public var bytes: [UInt8] {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return bytes
    }

    func append(to out: inout [UInt8]) {
        withUnsafeBytes(of: high.bigEndian) { out.append(contentsOf: $0) }
        withUnsafeBytes(of: low.bigEndian) { out.append(contentsOf: $0) }
    }

    public var description: String {
        String(unsafeUninitializedCapacity: Self.textBytes) { out in
            write(to: out)
            return Self.textBytes
        }
    }

    /// Writes ``textBytes`` characters.
    func write(to out: UnsafeMutableBufferPointer<UInt8>) {
        for place in 0..<10 { out[place] = Base64.character(UInt8(truncatingIfNeeded: high >> (58 - 6 * UInt64(place)))) }
        out[10] = Base64.character(UInt8(truncatingIfNeeded: high << 2 | low >> 62))
        for place in 0..<10 { out[11 + place] = Base64.character(UInt8(truncatingIfNeeded: low >> (56 - 6 * UInt64(place)))) }
        out[21] = Base64.character(UInt8(truncatingIfNeeded: low << 4))
    }

    public static func < (a: SourceID, b: SourceID) -> Bool { (a.high, a.low) < (b.high, b.low) }
}
