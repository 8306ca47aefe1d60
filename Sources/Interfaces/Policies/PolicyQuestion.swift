import Documents

/// Which way a document goes, seen from this database.
public enum Direction: String, Sendable {
    /// Out of this database.
    case push
    /// Into this database.
    case pull
}

/// One document as a policy sees it: ids and the raw JSON bytes, which nobody has parsed yet.
public struct PolicyDocument: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    /// The body, a JSON object.
    public var body: [UInt8]
    /// The document is leaving because the peer took access to it away.
    public var accessRemoved: Bool

    public init(id: DocumentID, revision: RevisionID, isDeleted: Bool, body: [UInt8], accessRemoved: Bool = false) {
        self.id = id
        self.revision = revision
        self.isDeleted = isDeleted
        self.body = body
        self.accessRemoved = accessRemoved
    }
}

/// A policy could not decide. The document is held, the conflict stays pending: a failure never lets anything pass.
public struct PolicyFailure: Error, Sendable, Equatable {
    public var plugin: String
    /// Content hash of the version that failed.
    public var version: String
    /// plugin_error, plugin_timeout, plugin_memory, plugin_result or plugin_load.
    public var kind: String
    /// `file:line: what happened`.
    public var message: String
    /// It is over soon, and nobody has to do anything: the plugin's tests are running.
    public var passesByItself = false

    public init(plugin: String, version: String, kind: String, message: String) {
        self.plugin = plugin
        self.version = version
        self.kind = kind
        self.message = message
    }
}

/// Where a decision is asked for.
public struct PolicyContext: Sendable {
    public var database: String
    public var collection: CollectionName
    public var direction: Direction
    /// The configured name of the replicator, or nil on a listener.
    public var replicator: String?
    /// The configured name of the listener, or nil on a replicator.
    public var listener: String?
    /// URL of the remote, or the peer's address. Of a command its program only: plugins, like status, get no arguments, which may hold secrets.
    public var remote: String
    /// Name of the authenticated peer.
    public var user: String?
    /// What is spoken with it, which tells how it names revisions; nil where nothing is.
    public var subprotocol: Subprotocol?

    public init(
        database: String, collection: CollectionName, direction: Direction,
        replicator: String? = nil, listener: String? = nil, remote: String, user: String? = nil
    ) {
        self.database = database
        self.collection = collection
        self.direction = direction
        self.replicator = replicator
        self.listener = listener
        self.remote = remote
        self.user = user
    }
}
