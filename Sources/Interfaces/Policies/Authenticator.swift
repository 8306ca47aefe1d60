/// Who a peer is and what it may do.
public struct Principal: Sendable, Equatable {
    public var name: String?
    /// The peer may pull but not push.
    public var isReadOnly: Bool
    public var channels: [String]?
    public var roles: [String]?
    /// The collections that the peer may use; nil for all of the listener's.
    public var collections: [String]?

    public init(
        name: String? = nil, isReadOnly: Bool = false, channels: [String]? = nil, roles: [String]? = nil,
        collections: [String]? = nil
    ) {
        self.name = name
        self.isReadOnly = isReadOnly
        self.channels = channels
        self.roles = roles
        self.collections = collections
    }

    /// A listener without an authenticator knows nobody and limits nothing.
    public static let anonymous = Principal()
}

/// What an authenticator says of a caller.
public enum AuthenticationVerdict: Sendable, Equatable {
    case accepted(Principal)
    case refused
    /// The authenticator itself failed: the caller's credentials may be right.
    case failed(PolicyFailure)
}

/// Checks names and passwords of peers.
public protocol PasswordAuthenticator: Sendable {
    func authenticate(username: String, password: String, listener: String, remote: String) async -> AuthenticationVerdict
    /// A value each time that it may judge otherwise than before: another version, another file of users.
    func versionChanges() -> AsyncStream<String>
}

/// Checks the certificates of peers. That the peer holds the key is proved already; whom the chain leads to is not.
public protocol CertificateAuthenticator: Sendable {
    /// - Parameter chain: the peer's own certificate first, then what it sent with it.
    func authenticate(chain: [PeerCertificate], listener: String, remote: String) async -> AuthenticationVerdict
    /// As for passwords.
    func versionChanges() -> AsyncStream<String>
}

/// One that never changes its mind.
extension PasswordAuthenticator {
    public func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

extension CertificateAuthenticator {
    public func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}
