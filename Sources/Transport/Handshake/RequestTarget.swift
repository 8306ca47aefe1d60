import HTTPServer

extension RequestTarget {
    /// The database's name if the path is `…/DATABASE/_blipsync`, not yet percent-decoded.
    static func replicationDatabase(path: String) -> Substring.UTF8View? {
        let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count >= 3, let last = parts.last, last.elementsEqual("_blipsync".utf8) else { return nil }
        return parts[parts.count - 2]
    }
}
