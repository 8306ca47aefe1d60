import Encodings
import Environment
import HTTPServer
import Synchronization

/// The cookies of one replicator (RFC 6265, as far as a client of a single server needs it): a session that the server opens
/// after a login with name and password is used for further connections, which saves the server the expensive password check,
/// and is dropped shortly before it expires.
///
/// As in Couchbase Lite, any other cookies that the server sets are returned too, but only to this host.
public final class SessionCookies: Sendable {
    /// Limits on what a server can make us store and send.
    private enum Limits {
        /// `cookies`.
        static let count = 16
        /// `cookie_bytes`: name and value.
        static let bytes = 4096
    }

    /// A cookie is no longer sent from this many seconds before its expiry, so that it cannot expire on the way.
    private static let margin: Int64 = 60

    private struct Cookie {
        var name: String
        var value: String
        /// Only sent over TLS.
        var isSecure: Bool
        /// Seconds since 1970; nil for the lifetime of the process.
        var end: Int64?
    }

    private let cookies = Mutex<[Cookie]>([])
    private let time: any TimeSource

    public init(time: any TimeSource) {
        self.time = time
    }

    /// The value of the `Cookie` header for a connection now; nil if there is none.
    ///
    /// - Parameter name: a cookie to leave out, because it comes from elsewhere.
    public func header(isSecure: Bool, without name: String? = nil) -> String? {
        let now = time.wallSeconds()
        return cookies.withLock { cookies in
            cookies.removeAll { cookie in cookie.end.map { $0 - Self.margin <= now } ?? false }
            let sent = cookies.filter { (isSecure || !$0.isSecure) && $0.name != name }
            return sent.isEmpty ? nil : sent.map { "\($0.name)=\($0.value)" }.joined(separator: "; ")
        }
    }

    /// Stores the cookies that a response sets. Malformed or too large ones are ignored.
    public func receive(_ headers: HeaderList) {
        let now = time.wallSeconds()
        for field in headers where HeaderList.sameName(field.name, "Set-Cookie") {
            guard let cookie = Self.parse(field.value, now) else { continue }
            cookies.withLock { cookies in
                cookies.removeAll { $0.name.utf8.elementsEqual(cookie.name.utf8) }
                if let end = cookie.end, end <= now { return }
                if cookies.count < Limits.count { cookies.append(cookie) }
            }
        }
    }

    /// Called when the server has refused them.
    public func forget() {
        cookies.withLock { $0 = [] }
    }

    private static func parse(_ text: String, _ now: Int64) -> Cookie? {
        let parts = text.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false).map { trim(Substring($0)) }
        guard let first = parts.first, let (name, value) = pair(first), !name.isEmpty, first.utf8.count <= Limits.bytes,
            HeaderList.isSendable("Cookie", first)
        else { return nil }
        var cookie = Cookie(name: name, value: value, isSecure: false, end: nil)
        var maxAge: Int64?
        for part in parts.dropFirst() {
            let (name, value) = pair(part) ?? (part, "")
            switch name.lowercased() {
            case "secure": cookie.isSecure = true
            // Max-Age has precedence, whatever the order.
            case "max-age": maxAge = Int64(value) ?? maxAge
            case "expires": cookie.end = HTTPDate.seconds(value) ?? cookie.end
            default: break
            }
        }
        if let maxAge { cookie.end = maxAge <= 0 ? now : now.addingReportingOverflow(maxAge).overflow ? nil : now + maxAge }
        return cookie
    }

    private static func pair(_ text: String) -> (String, String)? {
        guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        return (trim(text[..<equals]), trim(text[text.utf8.index(after: equals)...]))
    }

    private static func trim(_ text: Substring) -> String {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        let utf8 = text.utf8.drop(while: isBlank)
        guard let last = utf8.lastIndex(where: { !isBlank($0) }) else { return "" }
        return String(Substring(utf8[...last]))
    }
}
