import Digests
import Encodings

/// The SHA-1 of a blob's bytes; on the wire, `sha1-` and padded base64 (replication.md section 10).
public struct BlobDigest: Hashable, Sendable, CustomStringConvertible {
    private let high: UInt64
    private let middle: UInt64
    private let low: UInt32

    /// Parses `sha1-<base64 of 20 bytes>`.
    public init(_ text: String) throws(BlobDigestError) {
        guard text.utf8.count == 33, text.utf8.starts(with: "sha1-".utf8), let bytes = Base64.decode(text.dropFirst(5)),
            let digest = BlobDigest(bytes: bytes)
        else { throw BlobDigestError(value: quoted(text.utf8)) }
        self = digest
    }

    /// Creates a digest from the 20 bytes themselves; nil if there are more or fewer.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == SHA1.byteCount else { return nil }
        var high: UInt64 = 0
        var middle: UInt64 = 0
        var low: UInt32 = 0
        for (index, byte) in bytes.enumerated() {
            if index < 8 {
                high = high << 8 | UInt64(byte)
            } else if index < 16 {
                middle = middle << 8 | UInt64(byte)
            } else {
                low = low << 8 | UInt32(byte)
            }
        }
        self.high = high
        self.middle = middle
        self.low = low
    }

    private init(high: UInt64, middle: UInt64, low: UInt32) {
        self.high = high
        self.middle = middle
        self.low = low
    }

    public static func of(_ content: UnsafeRawBufferPointer) -> BlobDigest {
        withUnsafeTemporaryAllocation(byteCount: SHA1.byteCount, alignment: 8) { out in
            SHA1.hash(content, into: out)
            return BlobDigest(
                high: UInt64(bigEndian: out.load(as: UInt64.self)),
                middle: UInt64(bigEndian: out.load(fromByteOffset: 8, as: UInt64.self)),
                low: UInt32(bigEndian: out.load(fromByteOffset: 16, as: UInt32.self)))
        }
    }

    public static func of(_ content: [UInt8]) -> BlobDigest { content.withUnsafeBytes { of($0) } }

    /// The 20 bytes.
    public var bytes: [UInt8] {
        withUnsafeBytes(of: high.bigEndian) { a in
            withUnsafeBytes(of: middle.bigEndian) { b in
                withUnsafeBytes(of: low.bigEndian) { c in Array(a) + Array(b) + Array(c) }
            }
        }
    }

    /// The form used by peers.
    public var text: String { "sha1-" + Base64.encode(bytes) }

    /// 40 lowercase hexadecimal digits, fit for a file name.
    public var hex: String { Hex.encode(bytes) }

    public var description: String { text }
}

/// A text that is not a blob digest; `value` is the text, escaped and shortened for a log line.
public struct BlobDigestError: Error, Equatable, Sendable, CustomStringConvertible {
    public let value: String

    public var description: String { "\(value) is not a blob digest: sha1- and the base64 of 20 bytes with its padding" }
}
