/// An error of a replicator or of one document, in Couchbase's terms: a domain, a code within that domain, and whether retrying can help.
public struct ReplicationError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Who defines the code.
    public enum Domain: String, Sendable {
        case http, websocket, network, tls, blip, litecore, plugin, store
    }

    /// The network domain's codes, numbered as in LiteCore, which has no `notPermitted`.
    public enum NetworkCode: Int, Sendable {
        case dnsFailure = 1, unknownHost = 2, timeout = 3
        case invalidURL = 4, tooManyRedirects = 5, invalidRedirect = 12
        case reset = 16, aborted = 17, connectionReset = 18, refused = 19
        case networkDown = 20, networkUnreachable = 21, notConnected = 22, hostDown = 23, hostUnreachable = 24
        case addressNotAvailable = 25, brokenPipe = 26, unknownInterface = 27, notPermitted = 28
    }

    /// What helps against an error.
    public enum Kind: String, Sendable {
        /// Retrying, with growing delays.
        case transient
        /// Somebody has to change something: here, at the peer, or in between; see ``ReplicationError/remedy``.
        case needsAction = "needs_action"
        /// Nothing that is known in advance.
        case permanent
    }

    public var domain: Domain
    public var code: Int
    public var message: String
    public var kind: Kind
    /// How long the peer asked to be left alone (`Retry-After`), in seconds.
    public var retryAfterSeconds: Int?
    /// Replaces the remedy from the table. For an error that goes away by itself: what helps, if the cause is on this side.
    package var specificRemedy: String?
    /// The document exceeds the local size settings. One that is pulled is requested again when they allow more; a peer asks again by itself for one that was
    /// not sent to it.
    package var exceedsLocalSize = false
    /// The `limits.memory`, in bytes, with which this agent would take such a document, or give it to a peer; nil if it is not known, or another limit is
    /// exceeded.
    package var neededMemory: Int?
    /// The connection was ended here, because `limits.memory` was used up.
    package var isEviction = false

    /// Whether retrying, with growing delays, can help.
    public var isTransient: Bool {
        get { kind == .transient }
        set { kind = newValue ? .transient : .permanent }
    }

    /// Whether no further connection is worth trying, not even after a long time: with 4002, a peer says "do not come back", and a closed or broken
    /// local database does not recover for another connection.
    package var isPermanent: Bool { (domain, code) == (.websocket, 4002) || domain == .store }

    /// Creates an error whose ``kind`` follows the table of the operator surface.
    public init(domain: Domain, code: Int, message: String) {
        self.domain = domain
        self.code = code
        self.message = message
        kind = Self.kind(domain, code)
    }

    /// Creates an error that goes away when somebody acts.
    public init(domain: Domain, code: Int, message: String, remedy: String) {
        self.init(domain: domain, code: code, message: message)
        kind = .needsAction
        specificRemedy = remedy
    }

    public init(network code: NetworkCode, message: String) {
        self.init(domain: .network, code: code.rawValue, message: message)
    }

    /// The code that Couchbase Lite shows to applications: network and TLS 5000+, HTTP status and WebSocket close code 10000+ (close codes begin at
    /// 1000, so they appear as 11000+). TLS belongs to the network domain: codes 6 to 15.
    public var publicCode: Int {
        switch domain {
        case .network, .tls: 5000 + code
        case .http: 10000 + code
        case .websocket: 10000 + code
        case .blip, .litecore, .plugin, .store: code
        }
    }

    /// The peer holds a revision from which the document's own does not descend: HTTP/409, and LiteCore/8 from a Couchbase Lite listener.
    public var isConflict: Bool { (domain == .http && code == 409) || (domain == .litecore && code == 8) }

    /// The network may recover by itself; a continuous replicator waits for that.
    public var isNetworkDependent: Bool {
        domain == .network && [1, 2, 3, 20, 21, 22, 23, 24, 25, 26, 27].contains(code)
    }

    public var description: String { "\(domain.rawValue)/\(code): \(message)" }

    private static func kind(_ domain: Domain, _ code: Int) -> Kind {
        switch domain {
        case .http where [408, 429, 500, 502, 503, 504, 507].contains(code): .transient
        // A redirect that leads nowhere, and 511, are typical of captive portals.
        case .http where [401, 403, 404, 407, 511].contains(code) || (300..<400).contains(code): .needsAction
        // 1011 is the result, on either side, of a frame that was altered or lost in transit. A persistent fault is retried at growing intervals.
        case .blip where code == 1011: .transient
        // Memory is exhausted, this agent's or the peer's; others may release some.
        case .litecore where code == 13: .transient
        case .websocket where [1001, 1006, 1011, 1012, 1013, 4001, 408, 429, 502, 503, 504].contains(code): .transient
        case .websocket where [1002, 403].contains(code): .needsAction
        case .network where [1, 2, 3].contains(code) || (16...26).contains(code): .transient
        case .network where [4, 5, 12, 27, 28].contains(code): .needsAction
        case .tls: .needsAction
        case .http, .websocket, .network, .blip, .litecore, .plugin, .store: .permanent
        }
    }
}

extension ReplicationError {
    /// The message without the remedy, if it ends with that.
    public var cause: String {
        guard let remedy, message.utf8.count > remedy.utf8.count + 2, message.hasSuffix("; \(remedy)") else { return "\(self)" }
        return "\(domain.rawValue)/\(code): \(message.dropLast(remedy.count + 2))"
    }

    /// The message including the remedy, once.
    public var sentence: String { remedy.map { "\(cause); \($0)" } ?? cause }

    /// What somebody can do about it; nil if unknown, or if nobody has to do anything.
    public var remedy: String? {
        guard kind == .needsAction else { return nil }
        if let specificRemedy { return specificRemedy }
        switch (domain, code) {
        case (.http, 401): return "check the authenticator: user name, password, token or session, and whether the account is still there"
        case (.http, 403): return "have the peer's operator give the account access to this database"
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
        case (.network, 28): return "give the agent's user the right to listen there, or configure another place"
        case (.network, _): return "check network_interface, or plug that interface in"
        default: return nil
        }
    }
}
