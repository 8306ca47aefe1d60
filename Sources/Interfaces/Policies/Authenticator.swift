import Documents

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

    /// By the bytes of the names: a principal of which one changed only in how its characters are composed is another one.
    public static func == (left: Self, right: Self) -> Bool {
        func same(_ left: [String]?, _ right: [String]?) -> Bool { left?.map { ExactName($0) } == right?.map { ExactName($0) } }
        return left.name.map { ExactName($0) } == right.name.map { ExactName($0) } && left.isReadOnly == right.isReadOnly
            && same(left.channels, right.channels) && same(left.roles, right.roles) && same(left.collections, right.collections)
    }

    /// The principal for a listener without an authenticator: no name, no restrictions.
    public static let anonymous = Principal()
}

/// An authenticator's answer about a caller.
public enum AuthenticationVerdict: Sendable, Equatable {
    case accepted(Principal)
    case refused
    /// The authenticator itself failed: the caller's credentials may be valid.
    case failed(PolicyFailure)
}

/// Checks peers' names and passwords.
public protocol PasswordAuthenticator: Sendable {
    func authenticate(username: String, password: String, listener: String, remote: String) async -> AuthenticationVerdict
    /// Yields a value each time that its answers may have changed: another version, another users file.
    func versionChanges() -> AsyncStream<String>
}

/// Checks peers' certificates. The peer has already proved that it holds the key; whether to trust the chain is still open.
public protocol CertificateAuthenticator: Sendable {
    /// - Parameter chain: the peer's own certificate first, then the others that it sent.
    func authenticate(chain: [PeerCertificate], listener: String, remote: String) async -> AuthenticationVerdict
    /// As for ``PasswordAuthenticator``.
    func versionChanges() -> AsyncStream<String>
}

/// For an authenticator whose answers never change.
extension PasswordAuthenticator {
    public func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}

extension CertificateAuthenticator {
    public func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
}
