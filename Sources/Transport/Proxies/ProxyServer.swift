import Interfaces

/// A proxy that connections to a remote are made through.
public struct ProxyServer: Sendable, CustomStringConvertible {
    public enum Kind: String, Sendable {
        /// An HTTP proxy, used with CONNECT.
        case http
        /// The same, over TLS.
        case https
        /// SOCKS version 5 (RFC 1928); the proxy resolves the remote's name.
        case socks5
    }

    public var kind: Kind
    /// Without the brackets of an IPv6 address.
    public var host: String
    public var port: Int
    /// HTTP Basic credentials, or SOCKS user name and password (RFC 1929).
    public var credentials: BasicCredentials?
    /// TLS between us and the proxy; only with ``Kind/https``.
    public var secureLayer: SecureLayer?

    public init(_ kind: Kind, host: String, port: Int, credentials: BasicCredentials? = nil) {
        (self.kind, self.host, self.port, self.credentials) = (kind, host, port, credentials)
    }

    /// Without the credentials.
    public var description: String { "\(kind.rawValue)://\(HostAndPort.text(host, port))" }
}

enum HostAndPort {
    /// An IPv6 address is put into brackets.
    static func text(_ host: String, _ port: Int) -> String { "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)" }
}

/// The exchange with a proxy until it has connected us, independent of the underlying connection.
protocol ProxyNegotiation {
    /// The first bytes to send.
    mutating func begin() throws(ReplicationError) -> [UInt8]
    mutating func receive(_ bytes: some Collection<UInt8>) throws(ReplicationError) -> ProxyStep
}

/// What to do next, according to the proxy's answer.
enum ProxyStep: Equatable {
    /// More input is needed.
    case wait
    case send([UInt8])
    /// All further input comes from the remote, starting with these bytes.
    case connected([UInt8])
}

extension ProxyServer {
    /// - Parameter limit: maximum size of an HTTP proxy's answer (`header_bytes`).
    func negotiation(to host: String, _ port: Int, userAgent: String, limit: Int) -> any ProxyNegotiation {
        switch kind {
        case .http, .https: HTTPConnect(proxy: self, host: host, port: port, userAgent: userAgent, limit: limit)
        case .socks5: SOCKS5(proxy: self, host: host, port: port)
        }
    }

    /// The error for a proxy that requires a login, or rejects this one.
    func wantsLogin(_ message: String) -> ReplicationError {
        ReplicationError(
            domain: .http, code: 407, message: "\(self): \(message)",
            remedy: credentials == nil ? "write proxy: { username: …, password: … }" : "check proxy.username and proxy.password")
    }

    /// The error for an address where there is no proxy.
    func isNone(_ message: String) -> ReplicationError {
        ReplicationError(domain: .websocket, code: 1002, message: "\(self): \(message)", remedy: "check proxy.url: it is not a proxy of that kind")
    }
}
