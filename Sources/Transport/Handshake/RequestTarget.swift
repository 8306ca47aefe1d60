import Encodings

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
    static func decode(_ component: Substring.UTF8View) -> String? { PercentEncoding.strictlyDecode(component) }
}
