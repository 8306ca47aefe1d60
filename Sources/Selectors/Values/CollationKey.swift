import Documents

/// Bytes that sort like the values they stand for: the keys of indexes and of sorts.
///
/// No complete key is a prefix of another one, so keys can be concatenated. A key longer than `index_key_bytes` is truncated.
package enum CollationKey {
    /// Follows the last element of an array and the last member of an object; sorts before every value.
    private static let end: UInt8 = 0x01

    /// The key of one value, truncated if necessary.
    package static func of(_ value: JSONValue) -> [UInt8] {
        var key: [UInt8] = []
        append(value, to: &key)
        return key
    }

    /// The concatenated keys of several values; nil if one is missing.
    package static func of(_ paths: [FieldPath], in document: JSONValue) -> [UInt8]? {
        var key: [UInt8] = []
        for path in paths {
            guard let value = path.value(in: document) else { return nil }
            append(value, to: &key)
        }
        return key
    }

    /// - Returns: false if the key was truncated, so that other values may have the same key.
    @discardableResult
    package static func append(_ value: JSONValue, to key: inout [UInt8]) -> Bool {
        let start = key.count
        let limit = start + SelectorLimits.keyBytes
        write(value, into: &key, limit)
        guard key.count > limit else { return true }
        key.removeSubrange(limit...)
        return false
    }

    /// Appends the start of a range of keys that, up to its ``successor(of:)``, contains exactly the strings with this prefix; unless it is
    /// truncated.
    static func appendBeginning(_ text: String, to key: inout [UInt8]) {
        let start = key.count
        key.append(Collation.rank(.string(text)))
        write(text, into: &key, start + SelectorLimits.keyBytes)
        if key.count > start + SelectorLimits.keyBytes { key.removeSubrange((start + SelectorLimits.keyBytes)...) }
    }

    /// The smallest bytes that sort after everything with this prefix.
    package static func successor(of key: [UInt8]) -> [UInt8] {
        var next = key
        while let last = next.popLast() {
            if last < 0xFF {
                next.append(last + 1)
                return next
            }
        }
        return top
    }

    /// Sorts after every key.
    package static let top: [UInt8] = [0xFF]

    /// Beyond the limit, the output may be incomplete: it is truncated anyway.
    private static func write(_ value: JSONValue, into key: inout [UInt8], _ limit: Int) {
        key.append(Collation.rank(value))
        switch value {
        case .null, .bool: break
        case .number(let number): NumberKey(number).write(into: &key)
        case .string(let text): writeWhole(text, into: &key, limit)
        case .array(let items):
            for item in items {
                if key.count > limit { return }
                write(item, into: &key, limit)
            }
            key.append(end)
        case .object(let object):
            for member in object.members {
                if key.count > limit { return }
                key.append(Collation.rank(.string("")))
                writeWhole(member.key, into: &key, limit)
                write(member.value, into: &key, limit)
            }
            key.append(end)
        }
    }

    private static func writeWhole(_ text: String, into key: inout [UInt8], _ limit: Int) {
        write(text, into: &key, limit)
        key.append(0)
        key.append(0)
    }

    /// A zero byte is followed by a byte that distinguishes it from the end of the string.
    private static func write(_ text: String, into key: inout [UInt8], _ limit: Int) {
        for byte in text.utf8 {
            if key.count > limit { return }
            key.append(byte)
            if byte == 0 { key.append(0xFF) }
        }
    }
}
