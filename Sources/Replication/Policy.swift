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

    public init(plugin: String, version: String, kind: String, message: String) {
        self.plugin = plugin
        self.version = version
        self.kind = kind
        self.message = message
    }
}

/// What a filter says of one document.
public enum FilterVerdict: Sendable, Equatable {
    case pass
    case reject
    case failed(PolicyFailure)
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
    /// URL of the remote, or the peer's address.
    public var remote: String
    /// Name of the authenticated peer.
    public var user: String?

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

/// Decides which documents may leave (push filter) or enter (pull filter) a database.
public protocol DocumentFilter: Sendable {
    var pluginName: String { get }
    /// What verdicts depend on now: a hash of the version in force and of the parameters.
    var version: String { get }
    /// One verdict for each document, in the same order. Never throws and never blocks an event loop.
    func evaluate(_ documents: [PolicyDocument], _ context: PolicyContext) async -> [FilterVerdict]
    /// Yields the new version each time another one comes into force.
    func versionChanges() -> AsyncStream<String>
}

extension DocumentFilter {
    /// What counts when a filter gives fewer verdicts than it was asked for.
    var silence: FilterVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result", message: "the filter gave no verdict for this document"))
    }
}

/// Two revisions of one document that do not descend from each other.
public struct PolicyConflict: Sendable {
    public var id: DocumentID
    /// Nil when that side is deleted.
    public var local: PolicyDocument?
    public var remote: PolicyDocument?
    /// The common ancestor, nil where its body is gone.
    public var base: PolicyDocument?
    public var localRevision: RevisionID
    public var remoteRevision: RevisionID
    public var baseRevision: RevisionID?

    public init(
        id: DocumentID, local: PolicyDocument?, remote: PolicyDocument?, base: PolicyDocument?,
        localRevision: RevisionID, remoteRevision: RevisionID, baseRevision: RevisionID?
    ) {
        self.id = id
        self.local = local
        self.remote = remote
        self.base = base
        self.localRevision = localRevision
        self.remoteRevision = remoteRevision
        self.baseRevision = baseRevision
    }
}

/// How a conflict ends.
public enum ConflictDecision: Sendable, Equatable {
    case local
    case remote
    /// A new body, the JSON bytes of an object.
    case merged([UInt8])
    case delete
    /// No decision: the conflict stays pending and the local document is untouched.
    case failed(PolicyFailure)
}

/// Decides conflicts of a collection.
public protocol ConflictResolver: Sendable {
    var pluginName: String { get }
    var version: String { get }
    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision
    func versionChanges() -> AsyncStream<String>
}

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
}

/// Checks the certificates of peers. That the peer holds the key is proved already; whom the chain leads to is not.
public protocol CertificateAuthenticator: Sendable {
    /// - Parameter chain: the peer's own certificate first, then what it sent with it.
    func authenticate(chain: [PeerCertificate], listener: String, remote: String) async -> AuthenticationVerdict
}
