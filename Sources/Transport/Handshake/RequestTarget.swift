/// The target of an HTTP request line, taken apart.
enum RequestTarget {
    static func split(_ uri: String) -> (path: String, query: String?) {
        let bytes = uri.utf8
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "?")) else { return (uri, nil) }
        return (String(uri[..<mark]), String(uri[bytes.index(after: mark)...]))
    }

    /// The database's name if the path is `…/DATABASE/_blipsync`, not yet percent-decoded.
    static func replicationDatabase(path: String) -> Substring.UTF8View? {
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count >= 3, let last = parts.last, last.elementsEqual("_blipsync".utf8) else { return nil }
        return parts[parts.count - 2]
    }

    /// Percent-decodes one path component; nil if an escape is malformed or the result is no UTF-8 text.
    static func decode(_ component: Substring.UTF8View) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(component.count)
        var iterator = component.makeIterator()
        while let byte = iterator.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = iterator.next().flatMap(hexadecimal), let low = iterator.next().flatMap(hexadecimal) else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}
