import NIOHTTP1

/// Rules for a request's header beyond the parser's grammar, so that no two readers can disagree about where a request ends and whom it is for (RFC
/// 9112, sections 3.2 and 6.3; request smuggling).
enum HeaderRules {
    /// What is wrong, as a sentence for the client; nil if nothing is.
    static func problem(_ head: HTTPRequestHead) -> String? {
        let hosts = head.headers["Host"]
        if hosts.count > 1 { return "the request has more than one Host" }
        if hosts.isEmpty, head.version.minor >= 1 { return "the request has no Host, which HTTP/1.1 requires" }
        if let host = hosts.first, host.utf8.contains(where: { $0 <= 0x20 || $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "@") }) {
            return "Host is not a host with or without a port"
        }
        // Some readers use the first, others the last, or join them into a list, so they would disagree about who is logged in.
        if head.headers["Authorization"].count > 1 { return "the request has more than one Authorization" }
        if !head.uri.utf8.starts(with: "/".utf8), !(head.method == .OPTIONS && head.uri.utf8.elementsEqual("*".utf8)) {
            return "the request's target is not a path"
        }
        let lengths = head.headers["Content-Length"]
        let codings = head.headers["Transfer-Encoding"]
        if !codings.isEmpty {
            if !lengths.isEmpty { return "the request has both Content-Length and Transfer-Encoding" }
            if head.version.minor == 0 { return "HTTP/1.0 has no Transfer-Encoding" }
            guard codings.count == 1, HeaderList.sameName(codings[0], "chunked") else {
                return "the only supported Transfer-Encoding is chunked"
            }
        }
        if lengths.count > 1 { return "the request has more than one Content-Length" }
        if let length = lengths.first, !length.utf8.allSatisfy({ (0x30...0x39).contains($0) }) || Int(length) == nil {
            return "Content-Length is not a number"
        }
        return nil
    }
}
