/// Who writes a document that a sync function looks at.
public struct SyncCaller: Sendable, Equatable {
    /// Nil for a peer that nobody authenticated.
    public var name: String?
    public var roles: [String]
    /// What the peer may pull.
    public var channels: [String]
    /// The agent itself: everything is allowed, the function only assigns channels.
    public var isAdmin: Bool

    public init(name: String? = nil, roles: [String] = [], channels: [String] = [], isAdmin: Bool = false) {
        self.name = name
        self.roles = roles
        self.channels = channels
        self.isAdmin = isAdmin
    }

    public static let admin = SyncCaller(isAdmin: true)
}

/// One write that a sync function decides about.
public struct SyncRequest: Sendable {
    public var document: PolicyDocument
    /// The revision that is replaced; nil where there is none, or it is a deletion.
    public var old: PolicyDocument?
    public var caller: SyncCaller

    public init(document: PolicyDocument, old: PolicyDocument?, caller: SyncCaller) {
        self.document = document
        self.old = old
        self.caller = caller
    }
}

/// What a sync function assigns to a revision.
public struct SyncAssignment: Sendable, Equatable {
    public var channels: [String]
    /// Channels by user; a user that begins with `role:` is a role.
    public var access: [String: [String]]
    /// Roles by user.
    public var roles: [String: [String]]
    /// Seconds since 1970, UTC: when the document is deleted.
    public var expiry: Int64?

    public init(channels: [String] = [], access: [String: [String]] = [:], roles: [String: [String]] = [:], expiry: Int64? = nil) {
        self.channels = channels
        self.access = access
        self.roles = roles
        self.expiry = expiry
    }
}

/// What a sync function says of one write.
public enum SyncVerdict: Sendable, Equatable {
    case accepted(SyncAssignment)
    /// The peer gets the reason and gives the revision up.
    case rejected(reason: String)
    /// The peer keeps the revision and comes back.
    case failed(PolicyFailure)
}

/// Decides which writes of peers are stored, and which channels documents are in: Sync Gateway's sync function.
public protocol SyncFunction: Sendable {
    var pluginName: String { get }
    /// What verdicts depend on now: a hash of the version in force and of the parameters.
    var version: String { get }
    /// One verdict for each request, in the same order.
    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict]
    func versionChanges() -> AsyncStream<String>
}

extension SyncFunction {
    /// What counts when a function gives fewer verdicts than it was asked for.
    package var missingVerdict: SyncVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result", message: "sync gave no verdict for this document"))
    }
}
