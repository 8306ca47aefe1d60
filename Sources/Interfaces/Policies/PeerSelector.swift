/// A listener that a replicator may connect to, as it announces itself. None of this is verified before there is a connection.
public struct OfferedPeer: Sendable, Equatable {
    public var name: String
    public var group: String
    /// The agent's id.
    public var peerID: String?
    /// The pin of its key.
    public var pin: String?
    public var host: String
    public var port: Int
    /// Why the last attempt failed; nil if it succeeded, or none was made.
    public var lastError: String?
    /// When it was last reached (seconds since 1970).
    public var lastSuccess: Int64?

    public init(
        name: String, group: String, peerID: String? = nil, pin: String? = nil, host: String, port: Int, lastError: String? = nil, lastSuccess: Int64? = nil
    ) {
        (self.name, self.group, self.peerID, self.pin) = (name, group, peerID, pin)
        (self.host, self.port, self.lastError, self.lastSuccess) = (host, port, lastError, lastSuccess)
    }
}

/// Chooses the listener that a replicator connects to.
public protocol PeerSelector: Sendable {
    var pluginName: String { get }

    /// Called before each connection, and again if the chosen listener could not be reached.
    ///
    /// - Returns: the name of one of them; nil to wait. After a failure, none is chosen.
    func select(_ peers: [OfferedPeer], database: String, replicator: String, remote: String) async -> Result<String?, PolicyFailure>
}
