/// The author of a write that a sync function judges.
public struct SyncCaller: Sendable, Equatable {
    /// Nil for an anonymous peer.
    public var name: String?
    public var roles: [String]
    /// The channels that the peer may pull.
    public var channels: [String]
    /// The agent itself: everything is allowed, and the function only assigns channels.
    public var isAdmin: Bool

    public init(name: String? = nil, roles: [String] = [], channels: [String] = [], isAdmin: Bool = false) {
        self.name = name
        self.roles = roles
        self.channels = channels
        self.isAdmin = isAdmin
    }

    public static let admin = SyncCaller(isAdmin: true)
}

/// A write to be judged by a sync function.
public struct SyncRequest: Sendable {
    public var document: PolicyDocument
    /// The revision to be replaced; nil if there is none, or it is a deletion.
    public var old: PolicyDocument?
    public var caller: SyncCaller

    public init(document: PolicyDocument, old: PolicyDocument?, caller: SyncCaller) {
        self.document = document
        self.old = old
        self.caller = caller
    }
}

/// A sync function's assignment for a revision.
public struct SyncAssignment: Sendable, Equatable {
    public var channels: [String]
    /// Channels by user; a user that starts with `role:` is a role.
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

/// A sync function's decision about one write.
public enum SyncVerdict: Sendable, Equatable {
    case accepted(SyncAssignment)
    /// The peer is told the reason and gives up the revision.
    case rejected(reason: String)
    /// The peer keeps the revision and retries.
    case failed(PolicyFailure)
}

/// Decides which of the peers' writes are stored, and in which channels documents are: the equivalent of Sync Gateway's sync function.
public protocol SyncFunction: Sendable {
    var pluginName: String { get }
    /// Determines the verdicts: a hash of the version in force and of the parameters.
    var version: String { get }
    /// One verdict for each request, in the same order.
    func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict]
    func versionChanges() -> AsyncStream<String>
}

extension SyncFunction {
    /// The verdict for requests about which a function returned none.
    package var missingVerdict: SyncVerdict {
        .failed(
            PolicyFailure(
                plugin: pluginName, version: version, kind: "plugin_result", message: "sync gave no verdict for this document"))
    }
}
