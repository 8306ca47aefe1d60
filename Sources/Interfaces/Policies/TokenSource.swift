/// What a replicator shows to the other side.
public struct PeerToken: Sendable, Equatable {
    public var text: String
    /// How long it is good; nil where nobody says it.
    public var seconds: Double?

    public init(text: String, seconds: Double? = nil) { (self.text, self.seconds) = (text, seconds) }
}

/// Makes the tokens by which a replicator logs in.
public protocol TokenSource: Sendable {
    /// Asked when there is none, when the last one is about to end, and when the other side did not take it.
    func token(replicator: String, remote: String) async -> Result<PeerToken, PolicyFailure>
}
