import Documents

/// Two revisions of one document that do not descend from each other.
public struct PolicyConflict: Sendable {
    public var id: DocumentID
    /// Nil if that side is deleted.
    public var local: PolicyDocument?
    public var remote: PolicyDocument?
    /// The common ancestor; nil if its body is no longer stored.
    public var base: PolicyDocument?
    public var localRevision: RevisionID
    public var remoteRevision: RevisionID
    public var baseRevision: RevisionID?
    /// The version of each side for peers with version vectors; nil if it has none.
    public var localVersion: VectorVersion?
    public var remoteVersion: VectorVersion?

    public init(
        id: DocumentID, local: PolicyDocument?, remote: PolicyDocument?, base: PolicyDocument?,
        localRevision: RevisionID, remoteRevision: RevisionID, baseRevision: RevisionID?,
        localVersion: VectorVersion? = nil, remoteVersion: VectorVersion? = nil
    ) {
        self.id = id
        self.local = local
        self.remote = remote
        self.base = base
        self.localRevision = localRevision
        self.remoteRevision = remoteRevision
        self.baseRevision = baseRevision
        (self.localVersion, self.remoteVersion) = (localVersion, remoteVersion)
    }
}

/// The decision about a conflict.
public enum ConflictDecision: Sendable, Equatable {
    case local
    case remote
    /// A new body: the JSON text of an object.
    case merged([UInt8])
    case delete
    /// No decision: the conflict stays pending and the local document is unchanged.
    case failed(PolicyFailure)
}

/// Decides conflicts of a collection.
public protocol ConflictResolver: Sendable {
    var pluginName: String { get }
    var version: String { get }
    func resolve(_ conflict: PolicyConflict, _ context: PolicyContext) async -> ConflictDecision
    func versionChanges() -> AsyncStream<String>
    /// Whether, if it fails, the conflict is decided by the default rule instead of waiting until the resolver is fixed.
    var fallsBackToRule: Bool { get }
}

extension ConflictResolver {
    public var fallsBackToRule: Bool { false }
}
