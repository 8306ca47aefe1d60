/// The other side of a replication.
package struct ReplicatorTarget: Sendable, Hashable, CustomStringConvertible {
    package enum Scheme: String, Sendable, CaseIterable {
        case ws, wss, http, https, exec, unix, serial, local, discover

        fileprivate var usesTLS: Bool { self == .wss || self == .https }
        /// Reached by host and port, whether configured or discovered.
        package var isNetwork: Bool { self == .ws || self == .wss || self == .http || self == .https || self == .discover }
        /// A message endpoint: a byte stream other than a network connection.
        package var isEndpoint: Bool { self == .exec || self == .unix || self == .serial }
    }

    package let scheme: Scheme
    /// The complete text as written, including the scheme. Contains no credentials: those are refused.
    package let text: String
    /// The host without brackets; empty if the scheme has none.
    package let host: String
    /// The given port or the scheme's default (80, 443); 0 if the scheme has none.
    package let port: Int
    /// Network targets: the path, with its leading slash and without a trailing one, keeping percent-encoding. exec: the command. unix: the absolute
    /// path of the socket. serial: the device. local: the database.
    package let path: String
    /// The options after "?" in unix, serial and discover targets.
    let options: EndpointOptions

    /// exec: the program and its arguments.
    package var arguments: [String] { CommandWords.split(path) ?? [] }
    /// Whether the connection uses TLS.
    package var usesTLS: Bool { scheme.usesTLS || scheme == .discover && options.usesTLS }
    /// serial: bits per second.
    package var speed: Int { options.speed }

    /// discover: any listener of this group; nil: the listener named in ``path``.
    package var group: String? { options.group }

    /// The remote database: for a network target the last component of the path; for others the one that is named, nil if it has only one.
    package var database: String? {
        if scheme == .local { return path }
        return scheme.isNetwork && scheme != .discover ? path.split(separator: "/").last.map(String.init) : options.database
    }

    package var description: String { text }

    /// For status, logs and users who may read but not configure: for a command, only its program, because the rest may contain secrets.
    package var shown: String { scheme == .exec ? "exec:\(arguments.first ?? "")" : text }

    /// A remote's id, which may be a target, as ``shown`` shows it.
    package static func shown(_ text: String) -> String { (try? ReplicatorTarget(parsing: text))?.shown ?? text }

    /// A placeholder that no configuration produces.
    static let none = ReplicatorTarget(scheme: .exec, text: "", host: "", port: 0, path: "")

    private init(scheme: Scheme, text: String, host: String, port: Int, path: String, options: EndpointOptions = .init()) {
        self.options = options
        self.scheme = scheme
        self.text = text
        self.host = host
        self.port = port
        self.path = path
    }

    /// Why a text is not a valid target.
    package struct Invalid: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// - Parameter folder: the base of a relative `unix:` path; nil for the current folder.
    package init(parsing text: String, relativeTo folder: String? = nil) throws(Invalid) {
        let schemes = Scheme.allCases.map(\.rawValue)
        let choices = "expected a target beginning with ws://, wss://, http://, https://, exec:, unix:, serial:, local: or discover:"
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) else { throw Invalid(description: choices) }
        let word = text[..<colon].lowercased()
        guard let scheme = Scheme(rawValue: word) else {
            let hint = NearestName.nearest(to: word, among: schemes).map { "; did you mean \"\($0)\"?" } ?? ""
            throw Invalid(description: "unknown scheme \(ValueQuoting.quoted(word)); \(choices)\(hint)")
        }
        let rest = text[text.utf8.index(after: colon)...]
        guard !text.utf8.contains(0) else { throw Invalid(description: "a target must not contain the character NUL") }

        switch scheme {
        case .exec:
            guard rest.contains(where: { !$0.isWhitespace }) else { throw Invalid(description: "exec: needs a command after it") }
            guard CommandWords.split(String(rest)) != nil else { throw Invalid(description: "exec: has a quote that is not closed, or an empty program") }
            self.init(scheme: scheme, text: text, host: "", port: 0, path: String(rest))
        case .unix, .serial:
            var path = rest
            if path.hasPrefix("//") { path = path.dropFirst(2) }
            guard !path.isEmpty else {
                throw Invalid(description: "\(word): needs the path of a \(scheme == .unix ? "socket" : "device") after it")
            }
            if scheme == .serial, !path.hasPrefix("/") {
                throw Invalid(description: "serial: needs the absolute path of a device after it, such as serial:/dev/ttyUSB0")
            }
            let options = try EndpointOptions(removedFrom: &path, scheme)
            guard !path.isEmpty else { throw Invalid(description: "\(word): needs a path before the \"?\"") }
            self.init(
                scheme: scheme, text: text, host: "", port: 0, path: Paths.resolve(String(path), in: folder ?? Paths.currentFolder),
                options: options)
        case .local:
            guard TextSyntax.database.accepts(String(rest)) else { throw Invalid(description: "local: needs the name of a database after it") }
            self.init(scheme: scheme, text: text, host: "", port: 0, path: String(rest))
        case .discover:
            var name = rest
            let options = try EndpointOptions(removedFrom: &name, scheme)
            guard TextSyntax.serviceName.accepts(String(name)) else {
                throw Invalid(description: "discover: needs \(TextSyntax.serviceName.expected) after it")
            }
            guard (name == "*") == (options.group != nil) else {
                throw Invalid(
                    description: "discover: finds one listener by its name (discover:NAME), or any of a group (discover:*?group=GROUP): "
                        + "\(name == "*" ? "the group is missing" : "a name and a group are too much")")
            }
            self.init(scheme: scheme, text: text, host: "", port: 0, path: String(name), options: options)
        case .ws, .wss, .http, .https:
            guard rest.hasPrefix("//") else { throw Invalid(description: "expected // after \"\(word):\"") }
            let (host, port, path) = try Self.authority(rest.dropFirst(2))
            self.init(scheme: scheme, text: text, host: host, port: port ?? (scheme.usesTLS ? 443 : 80), path: path)
        }
    }

    private static func authority(_ rest: Substring) throws(Invalid) -> (host: String, port: Int?, path: String) {
        guard rest.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw Invalid(description: "a URL is ASCII without spaces; write other characters percent-encoded, hosts in punycode")
        }
        guard !rest.contains("?"), !rest.contains("#") else {
            throw Invalid(description: "a target URL has no query (?) and no fragment (#)")
        }
        let slash = rest.firstIndex(of: "/") ?? rest.endIndex
        let authority = rest[..<slash]
        guard !authority.contains("@") else {
            throw Invalid(description: "credentials in the URL are not allowed; use the replicator's authenticator")
        }

        var host = authority
        var portText: Substring?
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else { throw Invalid(description: "\"[\" without \"]\" in the URL's host") }
            host = authority[authority.index(after: authority.startIndex)..<close]
            guard Address.isIPv6(String(host)) else { throw Invalid(description: "\(ValueQuoting.quoted(String(host))) is not an IPv6 address") }
            let after = authority[authority.index(after: close)...]
            guard after.isEmpty || after.hasPrefix(":") else { throw Invalid(description: "expected a port after \"]\" in the URL") }
            if !after.isEmpty { portText = after.dropFirst() }
        } else {
            if let colon = authority.firstIndex(of: ":") {
                host = authority[..<colon]
                portText = authority[authority.index(after: colon)...]
            }
            guard !host.isEmpty else { throw Invalid(description: "the URL has no host") }
            guard host.utf8.count <= 253, host.utf8.allSatisfy({ Bytes.isAlphanumeric($0) || Bytes.isDash($0) || $0 == UInt8(ascii: ".") }) else {
                throw Invalid(description: "\(ValueQuoting.quoted(String(host))) is not a host name (IPv6 addresses stand in [ ])")
            }
        }
        var port: Int?
        if let portText {
            guard portText.utf8.count <= 5, portText.utf8.allSatisfy(Bytes.isDigit), let value = Int(portText), (1...65535).contains(value) else {
                throw Invalid(description: "expected a port from 1 to 65535 in the URL, found \(ValueQuoting.quoted(String(portText)))")
            }
            port = value
        }
        var path = rest[slash...]
        while path.hasSuffix("/") { path.removeLast() }
        guard !path.isEmpty else {
            throw Invalid(description: "the URL names no database; expected one after the host, such as /main")
        }
        return (String(host), port, String(path))
    }
}

extension Form where Value == ReplicatorTarget {
    static let target = Form<ReplicatorTarget>(
        shape: .text(pattern: "^([wW][sS][sS]?|[hH][tT][tT][pP][sS]?)://[^/@?#]+/.+|^([eE][xX][eE][cC]|[uU][nN][iI][xX]|[sS][eE][rR][iI][aA][lL]|[lL][oO][cC][aA][lL]|[dD][iI][sS][cC][oO][vV][eE][rR]):.+"),
        expected: "a target",
        read: { node, reading in
            guard let text = Form<String>.text("a target").read(node, &reading) else { return nil }
            do throws(ReplicatorTarget.Invalid) {
                return try ReplicatorTarget(parsing: text, relativeTo: reading.folder)
            } catch {
                reading.report(at: node.position, error.description)
                return nil
            }
        })
}
