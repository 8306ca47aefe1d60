import Documents
import Environment
import HTTPServer
import Interfaces
import NIOCore

/// Connects to a database over HTTP, such as one in CouchDB: the active side's ``TransportConnector`` for `http:` and `https:` targets. The
/// connection is an ``HTTPPeer``.
public struct DatabaseClient: TransportConnector {
    public var configuration: WebSocketClient.Configuration
    /// Whether a missing database is created.
    public var createsTarget = false
    private let group: any EventLoopGroup
    private let environment: Environment

    /// - Parameter configuration: its heartbeat and offered protocols are not used.
    public init(_ configuration: WebSocketClient.Configuration, group: any EventLoopGroup, environment: Environment) {
        self.configuration = configuration
        self.group = group
        self.environment = environment
    }

    /// Logs in and checks whether the database exists.
    ///
    /// - Throws: ``ReplicationError``: in the http domain for a refusal with a status, network or tls for errors below that.
    public func connect() async throws -> any MessageTransport {
        var configuration = configuration
        configuration.refresh?(&configuration)
        if configuration.sessions == nil { configuration.sessions = SessionCookies(time: environment.time) }
        var (hops, isTrusted) = (0, true)
        while true {
            let peer = DatabasePeer(configuration, eventLoop: group.next(), environment: environment)
            let answer = try await peer.exchange(Self.small("GET"))
            switch answer.status {
            case 200:
                // An answer longer than a database's information does not come from a database.
                let bytes = answer.isTooLarge ? [] : [UInt8](answer.body.readableBytesView)
                let body = try? JSONValue(parsing: bytes)
                guard body?["db_name"] != nil || body?["update_seq"] != nil || body?["instance_start_time"] != nil else {
                    throw ReplicationError(
                        domain: .http, code: 200, message: "\(configuration.url): what answers there is not a CouchDB database",
                        remedy: "check target: http: and https: are for CouchDB and what speaks its protocol; Sync Gateway and Couchbase Lite are reached with ws: or wss:")
                }
                return peer
            case 301, 302, 307, 308:
                hops += 1
                guard hops <= configuration.limits.redirects else {
                    throw ReplicationError(
                        network: .tooManyRedirects,
                        message: "\(configuration.url): more than \(configuration.limits.redirects) redirects (redirects)")
                }
                guard let location = answer.header("location"),
                    let next = configuration.url.redirected(to: location), next.isSecure || !configuration.url.isSecure
                else {
                    throw ReplicationError(
                        network: .invalidRedirect,
                        message: "\(configuration.url): HTTP \(answer.status), redirect without a usable Location: \(answer.header("location") ?? "none")")
                }
                if !next.isSameServer(as: configuration.url) {
                    isTrusted = false
                    // After a redirect to another server, nothing that may be secret is sent.
                    (configuration.credentials, configuration.cookies, configuration.headers, configuration.refresh) = (nil, nil, [:], nil)
                    configuration.sessions = SessionCookies(time: environment.time)
                }
                configuration.url = next
            case 404 where createsTarget:
                let made = try await peer.exchange(Self.small("PUT"))
                // 412: somebody else has created it meanwhile.
                guard made.isGood || made.status == 412 else {
                    let refusal = peer.refusal(made)
                    guard [401, 403].contains(made.status) else { throw refusal }
                    throw refusal.advising("create_target needs a login that may create databases there; or have the server's operator create the database")
                }
                return peer
            case 404:
                throw peer.refusal(answer).advising("check the database's name at the end of target; or have it made: create_target: true")
            case 401 where !isTrusted: throw peer.refusal(answer).advising(configuration.url.remedyForRedirect)
            default: throw peer.refusal(answer)
            }
        }
    }

    /// `couch_small_answer_bytes`: the size of a database's information.
    private static let smallAnswer = 64 << 10

    private static func small(_ method: String) -> PeerRequest {
        var request = PeerRequest(method, "")
        request.maximumAnswer = smallAnswer
        return request
    }
}

extension ReplicationError {
    /// The same error with a more specific remedy than the one for its code.
    func advising(_ remedy: String) -> ReplicationError { ReplicationError(domain: domain, code: code, message: message, remedy: remedy) }
}
