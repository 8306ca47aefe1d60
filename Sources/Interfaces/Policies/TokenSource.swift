/// What a replicator shows to the other side: a bearer token, or a session.
public struct PeerToken: Sendable, Equatable {
    public var text: String
    /// The cookie that carries it; nil for a bearer token.
    public var cookie: String?
    /// How long it is good; nil where nobody says it.
    public var seconds: Double?

    public init(text: String, cookie: String? = nil, seconds: Double? = nil) { (self.text, self.cookie, self.seconds) = (text, cookie, seconds) }
}

/// Makes the tokens or sessions by which a replicator logs in.
public protocol TokenSource: Sendable {
    /// Whether they are sessions.
    var givesSessions: Bool { get }

    /// Asked when there is none, when the last one is about to end, and when the other side did not take it.
    func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure>
}
