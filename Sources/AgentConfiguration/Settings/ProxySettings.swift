import Encodings

/// The proxy for a replicator's connections.
package struct ProxySettings: Sendable, ConfigurationSection {
    package var url = Located(ProxyURL.none)
    /// Default: none.
    package var username: Located<String>?
    package var password: Located<Secret>?
    /// PEM files of authorities accepted for an https proxy in addition to the system's. Absolute paths. Default: none.
    package var roots: [Located<String>] = []
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "proxy"
    static let keys: [Key<ProxySettings>] = [
        Key("url", \.url, Form<ProxyURL>.proxyURL.located, required: true,
            "http://HOST:PORT, asked with CONNECT (for ws targets, too), https://HOST:PORT, the same with TLS to the proxy, or socks5://HOST:PORT. "
                + "The proxy resolves the target's name; the target's TLS and its checks are between the agent and the target."),
        Key("username", optional: \.username, Form.text("a user name").located, "For the proxy: HTTP Basic, or SOCKS' login. With password."),
        Key("password", optional: \.password, Form<Secret>.secret.located, "For the proxy, with username. Sent to it in clear text, unless url begins with https:."),
        Key("roots", \.roots, Form<String>.path.located.list(of: "PEM files"), "For https: PEM files of authorities that are trusted for the proxy in addition to "
            + "the system's."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        if let username, password == nil { reading.report(at: username.position, "\"username\" needs a \"password\" beside it") }
        if let password, username == nil { reading.report(at: password.position, "\"password\" needs a \"username\" beside it") }
        if url.value.scheme != .https, let root = roots.first { reading.report(at: root.position, "\"roots\" needs a url that begins with https:") }
        switch url.value.scheme {
        case .http, .https:
            if let username, username.value.utf8.contains(UInt8(ascii: ":")) {
                reading.report(at: username.position, "a user name must not contain \":\" (HTTP Basic separates by it)")
            }
        case .socks5:
            if let username, !(1...255).contains(username.value.utf8.count) { reading.report(at: username.position, "SOCKS carries 1 to 255 bytes") }
            if let password, !(1...255).contains(password.value.revealed.utf8.count) {
                reading.report(at: password.position, "SOCKS carries 1 to 255 bytes")
            }
        }
    }
}

/// The address of a proxy.
package struct ProxyURL: Sendable, Equatable {
    package enum Scheme: String, Sendable, CaseIterable {
        case http, https, socks5

        /// If the URL names none.
        var port: Int {
            switch self {
            case .http: 80
            case .https: 443
            case .socks5: 1080
            }
        }
    }

    package let scheme: Scheme
    /// Without the brackets of an IPv6 address.
    package let host: String
    package let port: Int

    /// A placeholder that no configuration produces.
    static let none = ProxyURL()

    private init() { (scheme, host, port) = (.http, "", 0) }

    struct Invalid: Error { var description: String }

    /// Messages never quote the text, because it may contain a password.
    init(parsing text: String) throws(Invalid) {
        guard let mark = text.place(of: "://"), !text[..<mark.lowerBound].isEmpty, !text[mark.upperBound...].isEmpty else { throw Invalid(description: "expected a URL: http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT") }
        let word = text[..<mark.lowerBound].lowercased()
        guard let scheme = Scheme(rawValue: word == "socks5h" ? "socks5" : word) else {
            throw Invalid(description: "unknown kind of proxy; expected http://HOST:PORT and https://HOST:PORT, asked with CONNECT, and socks5://HOST:PORT")
        }
        let rest = String(text[mark.upperBound...].hasSuffix("/") ? text[mark.upperBound...].dropLast() : text[mark.upperBound...])
        guard !rest.contains("/") else { throw Invalid(description: "a proxy's URL has no path") }
        guard !rest.contains("@") else { throw Invalid(description: "credentials in the URL are not allowed; use username and password of proxy") }
        do throws(ReplicatorTarget.Invalid) {
            // The rest is parsed like any other network address.
            let place = try ReplicatorTarget(parsing: "ws://\(rest)/x")
            let hasPort = rest.utf8.last.map { (0x30...0x39).contains($0) } == true && rest.split(separator: "]").last?.contains(":") == true
            (self.scheme, host, port) = (scheme, place.host, hasPort ? place.port : scheme.port)
        } catch { throw Invalid(description: error.description) }
    }
}

extension Form where Value == ProxyURL {
    static let proxyURL = Form<ProxyURL>(
        shape: .text(pattern: "^([hH][tT][tT][pP][sS]?|[sS][oO][cC][kK][sS]5[hH]?)://[^/@?#]+/?$"), expected: "a proxy's URL",
        read: { node, reading in
            guard let text = Form<String>.text("a proxy's URL").read(node, &reading) else { return nil }
            do throws(ProxyURL.Invalid) { return try ProxyURL(parsing: text) } catch {
                reading.report(at: node.position, error.description)
                return nil
            }
        })
}

extension Form where Value == ProxySettings {
    static let proxy = Form<ProxySettings>(
        shape: .section(ProxySettings.shape), expected: "a mapping with url, username and password",
        read: { node, reading in
            // A URL may contain a password, so it is not shown.
            guard node.scalar == nil || reading.noteUnresolved(node) else {
                reading.report(at: node.position, "expected a mapping with the keys url, username and password, found \(ValueQuoting.kind(node))")
                return nil
            }
            return ProxySettings.read(node, &reading)
        })
}
