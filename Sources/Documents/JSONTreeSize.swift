/// The memory that JSON text takes when it is parsed into a tree of values.
public enum JSONTreeSize {
    /// A value with its box, its place in an array that has grown, and the header of its text or list. Measured: 56 bytes for an empty list, 72 for a
    /// number, 84 for a value within a list or object of its own.
    private static let bytesPerValue = 128

    /// Memory in bytes: an upper bound for any values.
    public static func bytes(of text: [UInt8]) -> Int { text.withUnsafeBufferPointer { bytes(of: $0) } }

    /// The same for bytes in a buffer.
    public static func bytes(of text: UnsafeBufferPointer<UInt8>) -> Int { values(in: text) * bytesPerValue + 2 * text.count }

    /// The number of values, or slightly more. The text need not be JSON.
    public static func values(in text: ArraySlice<UInt8>) -> Int { text.withUnsafeBufferPointer { values(in: $0) } }

    private static func values(in text: UnsafeBufferPointer<UInt8>) -> Int {
        var count = 1
        var at = 0
        while at < text.count {
            switch text[at] {
            case UInt8(ascii: "\""):
                at = text.endOfJSONString(at)
                continue
            case UInt8(ascii: ","), UInt8(ascii: "["), UInt8(ascii: "{"): count += 1
            default: break
            }
            at += 1
        }
        return count
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The position after the string whose quote is here; the end of the text if the string is not terminated. The text need not be JSON.
    public func endOfJSONString(_ quote: Int) -> Int {
        guard let first = baseAddress, quote < count else { return count }
        var at = first + quote
        _ = JSONText.skipCheckedString(&at, first + count)
        return at - first
    }

    /// The position of the next byte that is not white space.
    public func skippingJSONSpace(_ from: Int) -> Int {
        var at = from
        while at < count, self[at] <= 0x20 { at += 1 }
        return at
    }

    /// The position after the value that starts here; the end of the text if it is incomplete.
    public func endOfJSONValue(_ start: Int) -> Int {
        var at = start
        var depth = 0
        while at < count {
            switch self[at] {
            case UInt8(ascii: "\""):
                at = endOfJSONString(at)
                if depth == 0 { return at }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                at += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return at }
                depth -= 1
                at += 1
                if depth == 0 { return at }
            case UInt8(ascii: ","), 0x20, 0x0A, 0x0D, 0x09:
                if depth == 0 { return at }
                at += 1
            default: at += 1
            }
        }
        return count
    }
}
