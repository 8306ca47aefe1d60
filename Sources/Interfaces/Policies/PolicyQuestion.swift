import Documents

/// The direction in which a document moves, from this database's point of view.
public enum Direction: String, Sendable {
    /// Out of this database.
    case push
    /// Into this database.
    case pull
}

/// One document as presented to a policy: ids and the raw JSON text, not parsed yet.
public struct PolicyDocument: Sendable {
    public var id: DocumentID
    public var revision: RevisionID
    public var isDeleted: Bool
    /// The body, a JSON object.
    public var body: [UInt8]
    /// The document is being removed because the peer revoked access to it.
    public var accessRemoved: Bool

    public init(id: DocumentID, revision: RevisionID, isDeleted: Bool, body: [UInt8], accessRemoved: Bool = false) {
        self.id = id
        self.revision = revision
        self.isDeleted = isDeleted
        self.body = body
        self.accessRemoved = accessRemoved
    }
}

/// A policy could not decide. The document is held, or the conflict stays pending: a failure never lets anything pass.
public struct PolicyFailure: Error, Sendable, Equatable {
    public var plugin: String
    /// Content hash of the version that failed.
    public var version: String
    /// plugin_error, plugin_timeout, plugin_memory, plugin_result or plugin_load; or ``notAsked``.
    public var kind: String
    /// `file:line: what happened`.
    public var message: String
    /// The plugin was not asked, because there was no memory to show it the document; the message names what helps.
    public static let notAsked = "not_asked"
    /// The failure ends soon without anybody doing anything: the plugin's tests are running.
    public var resolvesItself = false

    public init(plugin: String, version: String, kind: String, message: String) {
        self.plugin = plugin
        self.version = version
        self.kind = kind
        self.message = message
    }
}

/// The circumstances in which a decision is requested.
public struct PolicyContext: Sendable {
    /// The `remote` of calls that no peer causes: for a save on this machine, and to put a stored document into its channels.
    public static let ownSave = "save"
    public static let ownRouting = "local"

    public var database: String
    public var collection: CollectionName
    public var direction: Direction
    /// The configured name of the replicator, or nil on a listener.
    public var replicator: String?
    /// The configured name of the listener, or nil on a replicator.
    public var listener: String?
    /// URL of the remote, or the peer's address. For a command, only its program: arguments may contain secrets, so plugins and status do not get
    /// them.
    public var remote: String
    /// Name of the authenticated peer.
    public var user: String?
    /// The protocol spoken with the peer, which determines how it names revisions; nil if there is none.
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
