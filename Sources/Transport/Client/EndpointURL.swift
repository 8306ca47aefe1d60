import HTTPServer
import Interfaces

/// The address of a remote database: `ws://host[:port]/path/DB`.
public struct EndpointURL: Sendable, Equatable, CustomStringConvertible {
    /// `ws`, `wss`, `http` or `https`, in lower case.
    public var scheme: String
    /// Without the brackets of an IPv6 address.
    public var host: String
    public var port: Int
    /// As written, beginning with a slash, without query and fragment.
    public var path: String
    public var query: String?

    public var isSecure: Bool { scheme == "wss" || scheme == "https" }
    var hasDefaultPort: Bool { port == (isSecure ? 443 : 80) }

    /// The value of the `Host` header: the scheme's default port is omitted.
    public var authority: String {
        let name = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return hasDefaultPort ? name : "\(name):\(port)"
    }

    public var description: String { "\(scheme)://\(authority)\(path)\(query.map { "?\($0)" } ?? "")" }

    /// - Throws: ``ReplicationError`` of the network domain that says what is wrong with the text.
    public init(_ text: String) throws {
        func wrong(_ why: String) -> ReplicationError {
            ReplicationError(
                network: .invalidURL,
                message: "\(Self.withoutPassword(text)) is not the URL of a database: \(why); expected ws://HOST:PORT/DATABASE, or wss://, http:// or https:// in its place")
        }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw wrong("it has a space, a control character or a character beyond ASCII; write it percent-encoded")
        }
        guard let mark = text.range(ofASCII: "://") else { throw wrong("it has no scheme") }
        scheme = text[..<mark.lowerBound].lowercased()
        guard ["ws", "wss", "http", "https"].contains(scheme) else { throw wrong("the scheme \(scheme) is unknown") }
        var rest = text[mark.upperBound...]
        if let fragment = rest.firstIndex(of: "#") { rest = rest[..<fragment] }
        if let mark = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: mark)...])
            rest = rest[..<mark]
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        path = slash == rest.endIndex ? "/" : String(rest[slash...])
        if authority.contains("@") { throw wrong("user name and password belong in the authenticator, not in the URL") }
        var portText: Substring?
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { throw wrong("the bracket of the IPv6 address is not closed") }
            host = String(authority[authority.index(after: authority.startIndex)..<end])
            let after = authority[authority.index(after: end)...]
            if after.first == ":" {
                portText = after.dropFirst()
            } else if !after.isEmpty {
                throw wrong("there is \"\(after)\" behind the IPv6 address")
            }
        } else if let colon = authority.firstIndex(of: ":") {
            host = String(authority[..<colon])
            portText = authority[authority.index(after: colon)...]
        } else {
            host = String(authority)
        }
        guard !host.isEmpty else { throw wrong("it names no host") }
        port = scheme == "wss" || scheme == "https" ? 443 : 80
        if let portText, !portText.isEmpty {
            guard let number = UInt16(portText), number > 0 else { throw wrong("\(portText) is not a port") }
            port = Int(number)
        }
    }

    /// The request target of the replication endpoint: like LiteCore, strips one trailing slash and appends `/_blipsync`, unless it is already there.
    var replicationTarget: String {
        var base = Substring(path)
        if base.last == "/" { base = base.dropLast() }
        let suffix = "/_blipsync"
        let full = base.hasSuffix(suffix) ? String(base) : base + suffix
        return query.map { "\(full)?\($0)" } ?? full
    }

    /// The target of a `Location` header: `/path` or a whole URL.
    func redirected(to location: String) -> EndpointURL? {
        guard !location.hasPrefix("//") else { return nil }
        guard location.hasPrefix("/") else { return try? EndpointURL(location) }
        guard var target = try? EndpointURL("\(scheme)://h\(location)") else { return nil }
        target.host = host
        target.port = port
        return target
    }

    /// Whether secrets for the other URL may also be sent here: it is the same server, with the same host and port, or the default TLS port in place
    /// of the default clear-text port. Any other port of the host may belong to somebody else.
    func isSameServer(as other: EndpointURL) -> Bool {
        guard HeaderList.sameName(host, other.host) else { return false }
        return port == other.port || !other.isSecure && isSecure && other.port == 80 && port == 443
    }

    /// The remedy if a server that must not get any secrets asks for a login.
    var remedyForRedirect: String {
        "the target led to \(authority), another host or port, which gets no credentials; if it is the right one, name it in target"
    }

    private static func withoutPassword(_ text: String) -> String {
        guard let at = text.lastIndex(of: "@"), let mark = text.range(ofASCII: "://"), mark.upperBound < at else { return text }
        return text[..<mark.upperBound] + "…" + text[at...]
    }
}

extension String {
    /// The first occurrence of an ASCII text.
    fileprivate func range(ofASCII needle: StaticString) -> Range<Index>? {
        let wanted = needle.withUTF8Buffer { Array($0) }
        var start = utf8.startIndex
        while start < utf8.endIndex {
            if utf8[start...].starts(with: wanted) { return start..<utf8.index(start, offsetBy: wanted.count) }
            start = utf8.index(after: start)
        }
        return nil
    }
}
