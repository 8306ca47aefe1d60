import Encodings

/// Parses the target of an HTTP request line.
package enum RequestTarget {
    package static func split(_ uri: String) -> (path: String, query: String?) {
        let bytes = uri.utf8
        guard let mark = bytes.firstIndex(of: UInt8(ascii: "?")) else { return (uri, nil) }
        return (String(uri[..<mark]), String(uri[bytes.index(after: mark)...]))
    }

    /// The path's components, each decoded separately, so that `%2F` is part of a name. A trailing slash adds none.
    ///
    /// - Throws: ``HTTPError`` 400 if one is not encoded correctly.
    package static func components(_ path: String) throws(HTTPError) -> [String] {
        var parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        if parts.first?.isEmpty == true { parts.removeFirst() }
        if parts.last?.isEmpty == true { parts.removeLast() }
        var components: [String] = []
        components.reserveCapacity(parts.count)
        for part in parts {
            guard let text = PercentEncoding.decode(part) else { throw HTTPError(400, "the path is not well percent-encoded: \(path)") }
            components.append(text)
        }
        return components
    }

    /// The first value of a key, decoded; a plus sign is a space, as in forms.
    package static func queryValue(_ key: String, in query: String) throws(HTTPError) -> String? {
        for item in query.utf8.split(separator: UInt8(ascii: "&")) {
            let pair = item.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let first = pair.first, let name = decodeFormText(first), name.utf8.elementsEqual(key.utf8) else { continue }
            guard pair.count == 2 else { return "" }
            guard let value = decodeFormText(pair[1]) else {
                throw HTTPError(400, "the value of \(key) in the query is not well percent-encoded")
            }
            return value
        }
        return nil
    }

    /// The keys, decoded; a key without `=` is one too.
    package static func queryKeys(in query: String) throws(HTTPError) -> [String] {
        var keys: [String] = []
        for item in query.utf8.split(separator: UInt8(ascii: "&")) {
            guard let key = decodeFormText(item.prefix { $0 != UInt8(ascii: "=") }) else {
                throw HTTPError(400, "a name in the query is not well percent-encoded")
            }
            keys.append(key)
        }
        return keys
    }

    private static func decodeFormText(_ text: Substring.UTF8View) -> String? {
        PercentEncoding.decode(text.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 })
    }
}
