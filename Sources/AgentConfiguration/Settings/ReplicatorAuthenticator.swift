/// How a replicator identifies itself to the remote.
package enum ReplicatorAuthenticator: Sendable, Equatable {
    /// HTTP Basic.
    case basic(username: Located<String>, password: Secret)
    /// A session cookie, by default Sync Gateway's.
    case session(id: Secret, cookie: String, position: SourcePosition)
    /// A client certificate.
    case identity(IdentityReference)
    /// `Authorization: Bearer …`.
    case bearer(Located<Secret>)
    /// Bearer tokens that IBM Cloud's IAM issues for an API key.
    case iam(key: Located<Secret>, url: Located<String>)
    /// Bearer tokens or sessions that a plugin makes.
    case plugin(PluginReference)

    package static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.basic(let user, let password), .basic(let otherUser, let otherPassword)): user == otherUser && password == otherPassword
        case (.session(let id, let cookie, _), .session(let otherID, let otherCookie, _)): id == otherID && cookie == otherCookie
        case (.identity(let one), .identity(let other)): one == other
        case (.bearer(let one), .bearer(let other)): one == other
        case (.iam(let key, let url), .iam(let otherKey, let otherURL)): key == otherKey && url == otherURL
        case (.plugin(let one), .plugin(let other)): one == other
        default: false
        }
    }

    /// Its position in the file.
    package var position: SourcePosition {
        switch self {
        case .basic(let username, _): username.position
        case .session(_, _, let position): position
        case .identity(let identity): identity.position
        case .bearer(let token): token.position
        case .iam(let key, _): key.position
        case .plugin(let plugin): plugin.plugin.position
        }
    }

    /// The login name if no authenticator is set.
    package static let noLogin = "nobody"

    /// Who logs in, as far as the configuration says: replacing a secret does not make it a different login.
    package var login: String {
        switch self {
        case .basic(let username, _): "user \(username.value)"
        case .session: "session"
        case .identity(.label(let label)): "identity \(label.value)"
        case .identity(.files(let certificate, _, _)): "certificate \(certificate.value)"
        case .identity(.provider(let uri)): "certificate \(uri.value)"
        case .bearer: "bearer"
        case .iam: "iam"
        case .plugin(let plugin): "plugin \(plugin.plugin.value)"
        }
    }

    /// The identity, if it uses one.
    package var identity: IdentityReference? {
        if case .identity(let identity) = self { identity } else { nil }
    }

    /// The plugin that makes tokens or sessions, if it uses one.
    package var plugin: PluginReference? {
        if case .plugin(let plugin) = self { plugin } else { nil }
    }
}

/// The keys of all forms; exactly one form must be used.
struct ReplicatorAuthenticatorSection: Sendable, ConfigurationSection {
    var username: Located<String>?
    var password: Located<Secret>?
    var session: Located<Secret>?
    var cookie: Located<String>?
    var identity: IdentityReference?
    var bearer: Located<Secret>?
    var iamKey: Located<Secret>?
    var iamURL: Located<String>?
    var plugin: Located<String>?
    var params: ConfigurationNode?
    var position = SourcePosition.none

    static let sectionName = "replicator_authenticator"
    static let keys: [Key<ReplicatorAuthenticatorSection>] = [
        Key("username", optional: \.username, Form.text("a user name").located, "HTTP Basic, with password."),
        Key("password", optional: \.password, Form<Secret>.secret.located, "HTTP Basic, with username."),
        Key("session", optional: \.session, Form<Secret>.secret.located, "Id of a session."),
        Key("cookie", optional: \.cookie, Form.text(.headerName).located, "Name of the session's cookie (default SyncGatewaySession)."),
        Key("identity", optional: \.identity, .identity, "Client certificate: a label in the key store, or certificate and key files."),
        Key("bearer", optional: \.bearer, Form<Secret>.secret.located, "Bearer token. If it comes from a file, that is read again when the other side no longer accepts it."),
        Key("iam_api_key", optional: \.iamKey, Form<Secret>.secret.located, "API key of IBM Cloud, for Cloudant: its IAM issues bearer tokens for the key, which are "
            + "renewed."),
        Key("iam_url", optional: \.iamURL, Form.text("a URL").located, "Where IAM issues tokens (default \(iamURL))."),
        Key("plugin", optional: \.plugin, Form.text(.plugin).located, "Plugin whose token hook makes bearer tokens, or whose get_session hook makes sessions: called "
            + "again when they expire or the other side no longer accepts them."),
        Key("params", optional: \.params, .params, "Parameters that the plugin declares."),
    ]

    /// IBM Cloud's own service.
    private static let iamURL = "https://iam.cloud.ibm.com/identity/token"

    static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    /// The forms for which keys are present, in the order of the table.
    private var forms: [String] {
        [
            username != nil || password != nil ? "username and password" : nil,
            session != nil || cookie != nil ? "session" : nil,
            identity != nil ? "identity" : nil,
            bearer != nil ? "bearer" : nil,
            iamKey != nil || iamURL != nil ? "iam_api_key" : nil,
            plugin != nil || params != nil ? "plugin" : nil,
        ].compactMap(\.self)
    }

    func check(_ reading: inout Reading) {
        let choices = "username and password, session (with cookie), identity, bearer, iam_api_key, or plugin (with params)"
        guard forms.count == 1 else {
            let found = forms.isEmpty ? "nothing" : forms.joined(separator: " beside ")
            reading.report(at: position, "expected exactly one of \(choices); found \(found)")
            return
        }
        if let username, password == nil { reading.report(at: username.position, "\"username\" needs a \"password\" beside it") }
        if let password, username == nil { reading.report(at: password.position, "\"password\" needs a \"username\" beside it") }
        if let username, username.value.utf8.contains(UInt8(ascii: ":")) {
            reading.report(at: username.position, "a user name must not contain \":\" (HTTP Basic separates by it)")
        }
        if let cookie, session == nil { reading.report(at: cookie.position, "\"cookie\" needs a \"session\" beside it") }
        if let params, plugin == nil { reading.report(at: params.position, "\"params\" needs a \"plugin\" beside it") }
        if let iamURL {
            if iamKey == nil { reading.report(at: iamURL.position, "\"iam_url\" needs an \"iam_api_key\" beside it") }
            let url = try? ReplicatorTarget(parsing: iamURL.value)
            let isSafe = url.map { $0.scheme == .https || $0.scheme == .http && Address.isLoopback($0.host) } ?? false
            if !isSafe { reading.report(at: iamURL.position, "expected a URL beginning with https:// (the API key is sent there)") }
        }
        for secret in [session, bearer].compactMap(\.self) where !HTTPHeaderSetting.isValue(secret.value.revealed) {
            reading.report(at: secret.position, "contains characters that an HTTP header cannot carry")
        }
    }

    /// nil if the check failed, which has been reported.
    var authenticator: ReplicatorAuthenticator? {
        if let username, let password { return .basic(username: username, password: password.value) }
        if let session { return .session(id: session.value, cookie: cookie?.value ?? "SyncGatewaySession", position: session.position) }
        if let identity { return .identity(identity) }
        if let iamKey { return .iam(key: iamKey, url: iamURL ?? Located(Self.iamURL, at: iamKey.position)) }
        if let plugin {
            var reference = PluginReference()
            (reference.plugin, reference.params) = (plugin, params)
            return .plugin(reference)
        }
        return bearer.map { .bearer($0) }
    }
}

extension Form where Value == ReplicatorAuthenticator {
    static let replicatorAuthenticator = Form<ReplicatorAuthenticator>(
        shape: .section(ReplicatorAuthenticatorSection.shape), expected: "a mapping",
        read: { node, reading in
            // A single value may be a password or a token placed one level too high, so it is not shown.
            guard node.scalar == nil || Form<ReplicatorAuthenticator>.isNothing(node) || reading.noteUnresolved(node) else {
                let keys = ReplicatorAuthenticatorSection.keys.map(\.name).joined(separator: ", ")
                reading.report(at: node.position, "expected a mapping with the keys \(keys), found \(ValueQuoting.kind(node))")
                return nil
            }
            return ReplicatorAuthenticatorSection.read(node, &reading)?.authenticator
        })
}

/// A header in a replicator's requests. The value may be a token, so it is treated like one.
package struct HTTPHeaderSetting: Sendable, Equatable {
    package var name: Located<String>
    package var value: Secret

    package init(name: Located<String>, value: Secret) {
        self.name = name
        self.value = value
    }

    /// Headers that the connection itself sets.
    static let reserved: Set<String> = [
        "host", "connection", "upgrade", "content-length", "transfer-encoding", "sec-websocket-key", "sec-websocket-version",
        "sec-websocket-protocol", "sec-websocket-extensions", "sec-websocket-accept",
    ]

    /// No line breaks or other control characters, which would begin another header.
    static func isValue(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 } }
}

extension Form where Value == [HTTPHeaderSetting] {
    static let headers: Form<[HTTPHeaderSetting]> = {
        let map = Form<Secret>.secret.located.map(keyedBy: .headerName, "a mapping from header names to texts") {
            value, name, reading -> HTTPHeaderSetting? in
            let place = name.position
            switch name.value.lowercased() {
            case "cookie": reading.report(at: name.position, "cookies are not set here; use authenticator: { session: …, cookie: … }")
            case let name where HTTPHeaderSetting.reserved.contains(name):
                reading.report(at: place, "this header is set by the connection itself")
            default: break
            }
            if !HTTPHeaderSetting.isValue(value.value.revealed) {
                reading.report(at: value.position, "contains characters that an HTTP header cannot carry")
            }
            return HTTPHeaderSetting(name: name, value: value.value)
        }
        return Form<[HTTPHeaderSetting]>(
            shape: map.shape, expected: map.expected, allowsNothing: true,
            read: { node, reading in
                // A line in curl's format may contain a token, so it is not shown.
                guard node.entries != nil || reading.noteUnresolved(node) else {
                    reading.report(at: node.position, "expected \(map.expected), found \(ValueQuoting.kind(node))")
                    return nil
                }
                guard let headers = map.read(node, &reading) else { return nil }
                var seen: Set<String> = []
                for header in headers where !seen.insert(header.name.value.lowercased()).inserted {
                    reading.report(at: header.name.position, "the header \(ValueQuoting.quoted(header.name.value)) appears a second time")
                }
                return headers
            })
    }()
}
