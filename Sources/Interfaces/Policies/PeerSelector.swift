/// A listener that a replicator may connect to, as it says of itself. Nothing of it is proven before there is a connection.
public struct OfferedPeer: Sendable, Equatable {
    public var name: String
    public var group: String
    /// Which agent it is.
    public var peerID: String?
    /// Of its key.
    public var pin: String?
    public var host: String
    public var port: Int
    /// Why it was not reached when it was tried last; nil where it was reached, or not tried.
    public var lastError: String?
    /// When it was reached last (seconds since 1970).
    public var lastSuccess: Int64?

    public init(
        name: String, group: String, peerID: String? = nil, pin: String? = nil, host: String, port: Int, lastError: String? = nil, lastSuccess: Int64? = nil
    ) {
        (self.name, self.group, self.peerID, self.pin) = (name, group, peerID, pin)
        (self.host, self.port, self.lastError, self.lastSuccess) = (host, port, lastError, lastSuccess)
    }
}

/// Says to which of several listeners a replicator connects.
public protocol PeerSelector: Sendable {
    var pluginName: String { get }

    /// Asked before each connection, and again where the one that it chose was not reached.
    ///
    /// - Returns: the name of one of them; nil to wait. A failure chooses nobody.
    func select(_ peers: [OfferedPeer], database: String, replicator: String, remote: String) async -> Result<String?, PolicyFailure>
}
