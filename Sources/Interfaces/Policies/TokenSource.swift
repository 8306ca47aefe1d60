/// The credential that a replicator presents to the other side: a bearer token, or a session.
public struct PeerToken: Sendable, Equatable {
    public var text: String
    /// The name of its cookie; nil for a bearer token.
    public var cookie: String?
    /// How long it is valid; nil if unknown.
    public var seconds: Double?

    public init(text: String, cookie: String? = nil, seconds: Double? = nil) { (self.text, self.cookie, self.seconds) = (text, cookie, seconds) }
}

/// Provides the tokens or sessions with which a replicator logs in.
public protocol TokenSource: Sendable {
    /// Whether it provides sessions rather than tokens.
    var givesSessions: Bool { get }

    /// Called if there is no token, if the last one is about to expire, or if the other side did not accept it.
    func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure>
}
