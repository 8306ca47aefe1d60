import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore
import NIOHTTP1

/// Connects to the replication endpoint of a remote database: the active side's ``TransportConnector``.
public struct WebSocketClient: TransportConnector {
    public enum Credentials: Sendable, Equatable {
        case basic(BasicCredentials)
        case bearer(String)
        /// Bearer tokens from IBM Cloud's IAM, only for CouchDB databases.
        case iam(IAMTokens)
        /// Bearer tokens or sessions that a plugin or the like makes.
        case supplied(SuppliedTokens)
    }

    public struct Configuration: Sendable {
        public var url: EndpointURL
        public var userAgent = "nightjar"
        public var credentials: Credentials?
        /// If false, credentials are withheld until the server asks for them with a 401.
        public var sendsCredentialsUpFront = true
        /// The value of the `Cookie` header, e.g. `SyncGatewaySession=…`.
        public var cookies: String?
        /// Stores sessions that the server opens. While there is one, credentials are withheld.
        public var sessions: SessionCookies?
        /// If there is no session, one is requested with name and password, and the upgrade request contains only the session.
        public var opensSession = false
        /// If false, no session is requested even from a CouchDB database, and name and password are sent with each request.
        public var mayOpenSessions = true
        public var headers: HeaderList = [:]
        /// A network interface's name or an address of this machine to connect from.
        public var networkInterface: String?
        /// The bandwidth limit for all connections together; nil for none.
        public var bandwidth: Bandwidth?
        /// The proxy that connections are made through.
        public var proxy: ProxyServer?
        /// Idle time after which a PING is sent.
        public var heartbeat: TimeAmount = .seconds(300)
        public var limits = TransportLimits()
        /// TLS; needed for `wss:` and `https:`.
        public var secureLayer: SecureLayer?
        /// The offered tokens of `Sec-WebSocket-Protocol`, in order of preference.
        public var protocols = Subprotocol.names
        /// Whether version vectors are already preferred if the other side has both kinds of revisions; nil to say nothing about that.
        public var prefersVersions: (@Sendable () -> Bool)?
        /// Called for every HTTP response on the way, including redirects and refusals; used for cookies.
        public var onResponse: (@Sendable (_ status: Int, _ headers: HeaderList) -> Void)?
        /// Called before each connection to update the credentials. May read files.
        public var refresh: (@Sendable (inout Configuration) -> Void)?

        public init(url: EndpointURL) {
            self.url = url
        }
    }

    public var configuration: Configuration
    private let group: any EventLoopGroup
    private let environment: Environment

    /// - Parameter environment: its randomness is used for handshake keys and frame masks.
    public init(_ configuration: Configuration, group: any EventLoopGroup, environment: Environment) {
        self.environment = environment
        self.configuration = configuration
        self.group = group
    }

    /// Opens the WebSocket; the transport is a ``WebSocketConnection``.
    ///
    /// - Throws: ``ReplicationError``: in the http domain for a refusal with a status, websocket 1002 or 403 for an answer that is not a valid
    ///   upgrade, network or tls for errors below that; `CancellationError` if the task is cancelled.
    public func connect() async throws -> any MessageTransport {
        var client = self
        configuration.refresh?(&client.configuration)
        guard case .supplied(let tokens)? = client.configuration.credentials else { return try await client.openSafely() }
        let first = try await tokens.current()
        do { return try await client.showing(first).openSafely() } catch let error as ReplicationError where error.domain == .http && error.code == 401 {
            tokens.forget(first.text)
            let next = try await tokens.current()
            guard next.text != first.text || next.cookie != first.cookie else { throw error }
            return try await client.showing(next).openSafely()
        }
    }

    private func showing(_ token: TokenKeeper.Token) -> WebSocketClient {
        var client = self
        if let cookies = token.cookieHeader {
            (client.configuration.credentials, client.configuration.cookies) = (nil, cookies)
        } else {
            client.configuration.credentials = .bearer(token.text)
        }
        return client
    }

    private func openSafely() async throws -> any MessageTransport {
        do { return try await open() } catch var error as ReplicationError {
            // A server's message may repeat what was sent to it.
            error.message = configuration.withoutSecrets(error.message)
            throw error
        }
    }

    private func open() async throws -> any MessageTransport {
        let deadline = NIODeadline.now() + configuration.limits.connectTime
        let correlation = CorrelationID.make(environment.random)
        var url = configuration.url
        var sendsCredentials = configuration.sendsCredentialsUpFront
        var isTrustedHost = true
        var hops = 0
        var hasAskedForSession = false
        while true {
            if isTrustedHost, configuration.opensSession, configuration.mayOpenSessions, !hasAskedForSession, configuration.sessions?.header(isSecure: url.isSecure) == nil {
                hasAskedForSession = true
                try await SessionOpening(configuration: configuration, group: group).open(at: url)
            }
            let session = isTrustedHost ? configuration.sessions?.header(isSecure: url.isSecure) : nil
            var watched = configuration
            if isTrustedHost, let sessions = configuration.sessions {
                watched.onResponse = { [onResponse = configuration.onResponse] status, headers in
                    sessions.receive(headers)
                    onResponse?(status, headers)
                }
            }
            let attempt = try ConnectionAttempt(
                url: url,
                request: request(
                    url, isTrusted: isTrustedHost, withCredentials: sendsCredentials && isTrustedHost && session == nil, session: session,
                    correlation: correlation),
                configuration: watched, deadline: deadline, eventLoop: group.next(), random: environment.random
            )
            switch try await attempt.run() {
            case .upgraded(let connection):
                return connection
            case .response(let response):
                if response.status == 401, session != nil {
                    // The session ended early: log in again.
                    configuration.sessions?.forget()
                    configuration.onResponse?(response.status, response.headers)
                    continue
                }
                watched.onResponse?(response.status, response.headers)
                if [301, 302, 307].contains(response.status) {
                    hops += 1
                    guard hops <= configuration.limits.redirects else {
                        throw ReplicationError(
                            network: .tooManyRedirects,
                            message: "\(configuration.url): more than \(configuration.limits.redirects) redirects (redirects)")
                    }
                    guard let location = response.headers.first("Location"), let next = url.redirected(to: location) else {
                        throw ReplicationError(
                            network: .invalidRedirect,
                            message: "\(url): HTTP \(response.status), redirect without a usable Location: \(response.headers.first("Location") ?? "none")")
                    }
                    if url.isSecure && !next.isSecure {
                        throw ReplicationError(
                            network: .invalidRedirect,
                            message: "\(url): redirect from a secure to an unprotected connection, \(next)")
                    }
                    if !next.isSameServer(as: configuration.url) { isTrustedHost = false }
                    url = next
                } else if response.status == 401, !sendsCredentials, isTrustedHost, configuration.credentials != nil {
                    sendsCredentials = true
                } else if response.status == 401, !isTrustedHost {
                    throw response.error(at: url).advising(url.remedyForRedirect)
                } else {
                    throw response.error(at: url)
                }
            }
        }
    }

    /// Header fields in LiteCore's order.
    private func request(_ url: EndpointURL, isTrusted: Bool, withCredentials: Bool, session: String?, correlation: String) throws -> HTTPRequestHead {
        var fields: [(String, String)] = [("Host", url.authority), ("User-Agent", configuration.userAgent)]
        if withCredentials {
            switch configuration.credentials {
            case .basic(let basic): fields.append(("Authorization", "Basic " + Base64.encode(Array("\(basic.username):\(basic.password)".utf8))))
            case .bearer(let token): fields.append(("Authorization", "Bearer \(token)"))
            case .iam, .supplied, nil: break
            }
        }
        // After a redirect to another host, neither cookies nor credentials are sent, nor configured headers, which may contain either.
        let cookies = isTrusted ? [configuration.cookies, session].compactMap(\.self).filter { !$0.isEmpty } : []
        if !cookies.isEmpty { fields.append(("Cookie", cookies.joined(separator: "; "))) }
        for field in configuration.headers where isTrusted {
            // Careful servers refuse a request with two Authorization headers, so the authenticator's own is dropped.
            let isLogin = HeaderList.sameName(field.name, "Authorization")
            if isLogin, !withCredentials || fields.contains(where: { HeaderList.sameName($0.0, field.name) }) { continue }
            fields.append((field.name, field.value))
        }
        if let wrong = fields.first(where: { !HeaderList.isSendable($0.0, $0.1) }) {
            throw ReplicationError(
                domain: .http, code: 400,
                message: "the header \(JSONString.quoted(wrong.0)) of the configuration has a character that cannot be sent")
        }
        let key = environment.random.bytes(16)
        fields += [
            ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", Base64.encode(key)),
            ("Sec-WebSocket-Protocol", configuration.protocols.joined(separator: ",")),
        ]
        if let prefersVersions = configuration.prefersVersions {
            fields.append((Subprotocol.versionsHeader, prefersVersions() ? Subprotocol.versionsPreferred : Subprotocol.versionsSupported))
        }
        if !fields.contains(where: { HeaderList.sameName($0.0, CorrelationID.header) }) { fields.append((CorrelationID.header, correlation)) }
        return HTTPRequestHead(version: .http1_1, method: .GET, uri: url.replicationTarget, headers: HTTPHeaders(fields))
    }
}

extension WebSocketClient.Configuration {
    /// Shorter secrets also occur by chance: hiding those would make texts unreadable.
    static let shortestSecret = 4

    /// Passwords, tokens, cookies and header values.
    var secrets: [String] {
        var secrets = headers.map(\.value)
        if let login = proxy?.credentials { secrets += [Base64.encode(Array("\(login.username):\(login.password)".utf8)), login.password] }
        switch credentials {
        case .basic(let basic): secrets += [Base64.encode(Array("\(basic.username):\(basic.password)".utf8)), basic.password]
        case .bearer(let token): secrets.append(token)
        case .iam(let tokens): secrets += tokens.secrets
        case .supplied(let tokens): secrets += tokens.secrets
        case nil: break
        }
        for cookie in [cookies, sessions?.header(isSecure: true)].compactMap(\.self).flatMap({ $0.split(separator: ";") }) {
            if let value = cookie.split(separator: "=", maxSplits: 1).last { secrets.append(String(value)) }
        }
        return secrets
    }

    /// A text with these replaced.
    func withoutSecrets(_ text: String) -> String {
        secrets.filter { $0.utf8.count >= Self.shortestSecret }.reduce(text) { $0.with($1, replacedBy: "(secret)") }
    }
}

/// An HTTP answer that is not an upgrade.
struct HandshakeResponse: Sendable {
    var status: Int
    var headers: HeaderList
    var body: [UInt8]

    /// The server's message: a JSON body's `reason`, or a plain text body.
    var reason: String? {
        let type = headers.first("Content-Type")?.lowercased() ?? ""
        if type.hasPrefix("application/json") { return ErrorBody.string(forKey: "reason", in: body) }
        if type.hasPrefix("text/plain") {
            let text = String(decoding: body, as: UTF8.self).split(whereSeparator: \.isNewline).joined(separator: " ")
            return text.isEmpty ? nil : text
        }
        return nil
    }

    /// Recognises the messages of our own listener, of Sync Gateway (Go) and of nginx.
    private var isFromTLSPort: Bool {
        if ErrorBody.string(forKey: "error", in: body) == "tls_required" { return true }
        let text = String(decoding: body, as: UTF8.self)
        return text.holds("HTTP request to an HTTPS server") || text.holds("plain HTTP request was sent to HTTPS port")
    }

    func error(at url: EndpointURL) -> ReplicationError {
        if (200..<300).contains(status) {
            return ReplicationError(
                domain: .websocket, code: 1002,
                message: "\(url): answered HTTP \(status) instead of an upgrade; is this the address of a replication endpoint?")
        }
        // LiteCore's code for a clear-text client at a TLS port, whatever status that port sends.
        if status == 400, !url.isSecure, isFromTLSPort {
            return .speaksTLS(url)
        }
        let phrase = HTTPResponseStatus(statusCode: status).reasonPhrase
        var error = ReplicationError(domain: .http, code: status, message: "\(url): HTTP \(status), \(reason ?? phrase)")
        error.retryAfterSeconds = RetryAfter.seconds(headers.first("Retry-After"), date: headers.first("Date"))
        return error
    }
}

extension ReplicationError {
    /// The error for a clear-text client at a TLS port.
    static func speaksTLS(_ url: EndpointURL) -> ReplicationError {
        ReplicationError(domain: .websocket, code: 1006, message: "\(url): the server speaks TLS: use wss:", remedy: "write wss: in target")
    }
}
