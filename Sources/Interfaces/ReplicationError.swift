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
        case reset = 16, aborted = 17, connectionReset = 18, refused = 19
        case networkDown = 20, networkUnreachable = 21, notConnected = 22, hostDown = 23, hostUnreachable = 24
        case addressNotAvailable = 25, brokenPipe = 26, unknownInterface = 27
    }

    public var domain: Domain
    public var code: Int
    public var message: String
    /// Trying again, with growing delays, can help.
    public var isTransient: Bool

    /// Makes an error whose ``isTransient`` follows the table of the operator surface.
    public init(domain: Domain, code: Int, message: String) {
        self.domain = domain
        self.code = code
        self.message = message
        self.isTransient = Self.isTransient(domain, code)
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

    /// The network may come back by itself; a continuous replicator waits for it.
    public var isNetworkDependent: Bool {
        domain == .network && [1, 2, 3, 20, 21, 22, 23, 24, 25, 26, 27].contains(code)
    }

    public var description: String { "\(domain.rawValue)/\(code): \(message)" }

    static func isTransient(_ domain: Domain, _ code: Int) -> Bool {
        switch domain {
        case .http: [408, 429, 500, 502, 503, 504].contains(code)
        case .websocket: [1001, 1006, 1012, 1013, 4001, 408, 429, 502, 503, 504].contains(code)
        case .network: [1, 3, 16, 17, 18, 19].contains(code)
        case .tls, .blip, .litecore, .plugin, .store: false
        }
    }
}
