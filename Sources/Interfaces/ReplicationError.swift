/// An error of a replicator or of one document, in the terms of this field: a domain, a number in that domain, whether
/// trying again can help.
public struct ReplicationError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Who defines the number.
    public enum Domain: String, Sendable {
        case http, websocket, network, tls, blip, litecore, plugin, store
    }

    /// The network domain's numbers, as LiteCore numbers them.
    public enum NetworkCode: Int, Sendable {
        case dnsFailure = 1, unknownHost = 2, timeout = 3
        case invalidURL = 4, tooManyRedirects = 5, invalidRedirect = 12
        case reset = 16, aborted = 17, connectionReset = 18, refused = 19
        case networkDown = 20, networkUnreachable = 21, notConnected = 22, hostDown = 23, hostUnreachable = 24
        case addressNotAvailable = 25, brokenPipe = 26, unknownInterface = 27
    }

    /// What helps against an error.
    public enum Kind: String, Sendable {
        /// Trying again, with growing delays.
        case transient
        /// Somebody has to change something, here, at the peer or on the way; see ``ReplicationError/remedy``.
        case needsAction = "needs_action"
        /// Nothing that is known beforehand.
        case permanent
    }

    public var domain: Domain
    public var code: Int
    public var message: String
    public var kind: Kind
    /// The peer asked not to be troubled for so long (`Retry-After`).
    public var retryAfterSeconds: Int?
    /// In place of what the table of remedies says; of an error that passes by itself: what helps, where its cause is on this side.
    package var ownRemedy: String?
    /// The document is larger than the settings here allow. Where they allow more, it is asked for once more.
    package var isOfSizeHere = false

    /// Trying again, with growing delays, can help.
    public var isTransient: Bool {
        get { kind == .transient }
        set { kind = newValue ? .transient : .permanent }
    }

    /// No other connection is worth a try, be it after a long time: 4002 is a peer's word for "do not come back", and an own database that is
    /// closed or broken does not open for another connection.
    package var isForGood: Bool { (domain, code) == (.websocket, 4002) || domain == .store }

    /// Makes an error whose ``kind`` follows the table of the operator surface.
    public init(domain: Domain, code: Int, message: String) {
        self.domain = domain
        self.code = code
        self.message = message
        kind = Self.kind(domain, code)
    }

    /// An error that goes away when somebody does something.
    public init(domain: Domain, code: Int, message: String, remedy: String) {
        self.init(domain: domain, code: code, message: message)
        kind = .needsAction
        ownRemedy = remedy
    }

    public init(network code: NetworkCode, message: String) {
        self.init(domain: .network, code: code.rawValue, message: message)
    }

    /// The number that the field shows to applications: network and TLS 5000+, HTTP status and WebSocket close code 10000+
    /// (close codes begin at 1000, so they show as 11000+). For the field TLS is a part of the network: codes 6 to 15.
    public var publicCode: Int {
        switch domain {
        case .network, .tls: 5000 + code
        case .http: 10000 + code
        case .websocket: 10000 + code
        case .blip, .litecore, .plugin, .store: code
        }
    }

    /// The peer holds a revision that the document's own does not descend from: HTTP/409, and LiteCore/8 of a Couchbase Lite that listens.
    public var isConflict: Bool { (domain == .http && code == 409) || (domain == .litecore && code == 8) }

    /// The network may come back by itself; a continuous replicator waits for it.
    public var isNetworkDependent: Bool {
        domain == .network && [1, 2, 3, 20, 21, 22, 23, 24, 25, 26, 27].contains(code)
    }

    public var description: String { "\(domain.rawValue)/\(code): \(message)" }

    private static func kind(_ domain: Domain, _ code: Int) -> Kind {
        switch domain {
        case .http where [408, 429, 500, 502, 503, 504, 507].contains(code): .transient
        // A redirect that leads nowhere, and 511, are the answers of captive portals.
        case .http where [401, 403, 404, 407, 511].contains(code) || (300..<400).contains(code): .needsAction
        // 1011 is what a frame that was changed or lost on the way ends with, at either end. A fault that stays is tried ever more seldom.
        case .blip where code == 1011: .transient
        // Memory is used up, this agent's or the peer's, which others may give back.
        case .litecore where code == 13: .transient
        case .websocket where [1001, 1006, 1011, 1012, 1013, 4001, 408, 429, 502, 503, 504].contains(code): .transient
        case .websocket where [1002, 403].contains(code): .needsAction
        case .network where [1, 2, 3].contains(code) || (16...26).contains(code): .transient
        case .network where [4, 5, 12, 27].contains(code): .needsAction
        case .tls: .needsAction
        case .http, .websocket, .network, .blip, .litecore, .plugin, .store: .permanent
        }
    }
}

extension ReplicationError {
    /// Without the remedy, where the message ends with it.
    public var cause: String {
        guard let remedy, message.utf8.count > remedy.utf8.count + 2, message.hasSuffix("; \(remedy)") else { return "\(self)" }
        return "\(domain.rawValue)/\(code): \(message.dropLast(remedy.count + 2))"
    }

    /// With the remedy, once.
    public var sentence: String { remedy.map { "\(cause); \($0)" } ?? cause }

    /// What somebody can do about it; nil where nothing is known, or nobody has to.
    public var remedy: String? {
        guard kind == .needsAction else { return nil }
        if let ownRemedy { return ownRemedy }
        switch (domain, code) {
        case (.http, 401): return "check the authenticator: user name, password, token or session, and whether the account is still there"
        case (.http, 403): return "have the account let into this database by whoever runs the peer"
        case (.http, 404): return "check the database's name at the end of target, and whether the peer has it"
        case (.http, 407): return "the proxy on the way wants a login"
        case (.network, 4): return "check target"
        case (.http, _), (.websocket, 1002), (.network, 5), (.network, 12):
            return "something else than a replication endpoint answered: check target, or log in to this network if it has a captive portal"
        case (.websocket, _): return "the peer speaks another replication protocol: check target and the peer's version"
        case (.tls, 7), (.tls, 8): return "have the peer's certificate renewed, and check the clock of this machine"
        case (.tls, 9), (.tls, 10): return "check authenticator.identity: the peer takes only certificates that it knows"
        case (.tls, 11): return "check pinned_server_certificate, roots and whether target speaks TLS"
        case (.tls, 14): return "the peer's certificate was revoked: have it replaced"
        case (.tls, 15): return "check the host name in target against the peer's certificate"
        case (.tls, _): return "check the TLS settings on both sides"
        case (.network, _): return "check network_interface, or plug that interface in"
        default: return nil
        }
    }
}
