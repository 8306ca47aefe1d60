/// A key of an object being walked, and the search for equal keys.
struct ObjectKey: BitwiseCopyable {
    /// The first eight bytes, so that most comparisons are one.
    let prefix: UInt64
    /// The key's position in the text, without its quotes, in its written form.
    let start: UInt32
    let count: UInt32
    let isEscaped: Bool

    @inline(__always)
    init(_ key: UnsafeBufferPointer<UInt8>, from text: UnsafePointer<UInt8>, isEscaped: Bool) {
        prefix = JSONText.orderPrefix(key)
        start = key.baseAddress.map { UInt32($0 - text) } ?? 0
        count = UInt32(key.count)
        self.isEscaped = isEscaped
    }

    @inline(__always)
    private func bytes(_ text: UnsafePointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: text + Int(start), count: Int(count))
    }

    /// The unescaped bytes of a key, from its written form.
    static func plain(_ written: UnsafeBufferPointer<UInt8>) -> [UInt8] {
        var plain: [UInt8] = []
        plain.reserveCapacity(written.count)
        JSONText.appendPlain(written, to: &plain)
        return plain
    }

    /// The later of two equal keys of an object; nil if all differ. Their order is lost.
    ///
    /// Sorted rather than hashed: no choice of keys can make it slow.
    static func duplicate(in keys: UnsafeMutableBufferPointer<ObjectKey>, of text: UnsafePointer<UInt8>) -> ObjectKey? {
        if keys.contains(where: \.isEscaped) { return duplicateWithEscapes(keys, of: text) }
        if keys.count <= 16 {
            for index in keys.indices {
                let key = keys[index]
                for other in 0..<index where keys[other].prefix == key.prefix && keys[other].count == key.count {
                    if compareBytes(keys[other].bytes(text), key.bytes(text)) == 0 { return key }
                }
            }
            return nil
        }
        func order(_ a: ObjectKey, _ b: ObjectKey) -> Int {
            if a.prefix != b.prefix { return a.prefix < b.prefix ? -1 : 1 }
            return compareBytes(a.bytes(text), b.bytes(text))
        }
        var keys = keys
        keys.sort { a, b in
            let order = order(a, b)
            return order != 0 ? order < 0 : a.start < b.start
        }
        for index in 1..<keys.count where order(keys[index - 1], keys[index]) == 0 { return keys[index] }
        return nil
    }

    /// Keys are equal if their unescaped bytes are, however they are written.
    private static func duplicateWithEscapes(_ keys: UnsafeMutableBufferPointer<ObjectKey>, of text: UnsafePointer<UInt8>) -> ObjectKey? {
        var plain = keys.map { (bytes: Self.plain($0.bytes(text)), key: $0) }
        func order(_ a: [UInt8], _ b: [UInt8]) -> Int { a.withUnsafeBufferPointer { x in b.withUnsafeBufferPointer { y in compareBytes(x, y) } } }
        plain.sort { a, b in
            let order = order(a.bytes, b.bytes)
            return order != 0 ? order < 0 : a.key.start < b.key.start
        }
        for index in plain.indices.dropFirst() where order(plain[index - 1].bytes, plain[index].bytes) == 0 { return plain[index].key }
        return nil
    }
}
