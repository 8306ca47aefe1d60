import Documents
import DocumentStore
import Interfaces

/// The directions in which a replicator moves documents.
public enum ReplicatorType: String, Sendable {
    case pushAndPull = "push_and_pull"
    case push
    case pull

    public var pushes: Bool { self != .pull }
    public var pulls: Bool { self != .push }
}

/// How one collection is replicated.
public struct CollectionReplication: Sendable {
    public var collection: CollectionName
    public var pushFilter: (any DocumentFilter)?
    public var pullFilter: (any DocumentFilter)?
    /// Decides conflicts; nil for the default rule.
    public var resolver: (any ConflictResolver)?
    /// Observes the resolver's decisions without influencing them.
    public var shadow: ShadowResolver?
    /// Only these documents; nil for all.
    public var documentIDs: [DocumentID]?
    /// Sync Gateway channels to pull from; nil for all.
    public var channels: [String]?
    /// The filter for a source that is a database with CouchDB's protocol.
    public var sourceFilter: SourceFilter?
    /// Deletions of documents that the other side never had are not transferred.
    public var skipsDeletions = false
    /// Documents of collections with a higher priority are pushed first.
    public var priority = 0

    public init(
        collection: CollectionName, pushFilter: (any DocumentFilter)? = nil, pullFilter: (any DocumentFilter)? = nil,
        resolver: (any ConflictResolver)? = nil, documentIDs: [DocumentID]? = nil, channels: [String]? = nil
    ) {
        self.collection = collection
        self.pushFilter = pushFilter
        self.pullFilter = pullFilter
        self.resolver = resolver
        self.documentIDs = documentIDs
        self.channels = channels
    }
}

/// What a replicator does. The connector that reaches the peer is passed separately.
public struct ReplicatorConfiguration: Sendable {
    public var name: String
    public var database: Database
    /// The remote database as configured; checkpoints are identified by it.
    public var target: String
    /// The target as shown to people and plugins: without anything that only its operator may know. Default: the target.
    public var shownTarget: String
    /// Identifies the remote database, whatever its address is; nil: its target.
    public var remoteID: String?
    /// The login used at the remote, in a form that stays the same for the same login; nil if unknown. Another login has its own checkpoints there,
    /// and may see other documents.
    public var login: String?
    public var type: ReplicatorType
    public var isContinuous: Bool
    public var collections: [CollectionReplication]
    public var retry: RetryMachine.Settings
    /// Documents that the peer took away are purged here.
    public var autoPurge: Bool
    /// Whether changes are sent as deltas if the peer accepts or sends them.
    public var usesDeltas = true
    /// Seconds between checks by an idle continuous pull whether the peer has something it did not announce; 0 for none.
    public var silenceIntervalSeconds = 0
    public var conflictObserver: ConflictObserver = { _ in }
    /// Called with the number of documents purged because the peer revoked access, for each batch, once the purge is durable.
    package var purgeObserver: @Sendable (CollectionName, Int) -> Void = { _, _ in }
    /// Records what crosses the wire.
    public var wireLog: WireLog?
    /// For a target that leads to several remote databases: the one that was last reached.
    let chosen = ChosenRemote()
    /// The peer's use of blob proofs, over all connections.
    let proofs: ProofAccounts
    public var limits: ReplicationLimits

    public init(
        name: String, database: Database, target: String, type: ReplicatorType = .pushAndPull, isContinuous: Bool = false,
        collections: [CollectionReplication] = [CollectionReplication(collection: .default)],
        retry: RetryMachine.Settings = .init(), autoPurge: Bool = true, limits: ReplicationLimits = .init()
    ) {
        self.name = name
        self.database = database
        self.target = target
        shownTarget = target
        self.type = type
        self.isContinuous = isContinuous
        self.collections = collections
        self.retry = retry
        self.autoPurge = autoPurge
        self.limits = limits
        proofs = ProofAccounts(limits)
    }

    /// Whether everything in the database is pushed to the remote.
    var pushesEverything: Bool {
        guard type.pushes, collections.allSatisfy({ $0.pushFilter == nil && $0.documentIDs == nil }) else { return false }
        let pushed = Set(collections.map(\.collection))
        return database.collections.allSatisfy { pushed.contains($0.name) }
    }

    /// Identifies the remote in checkpoints, and in the store's notes on the remote's documents. Ids and targets are not distinguished by a prefix:
    /// with the old target as id, a replicator continues from what was recorded under it.
    var remoteKey: String { remoteID ?? chosen.key ?? target }

    /// For a target that leads to several remote databases: the one that was last reached; nil before the first, and for other targets.
    package var chosenRemote: String? { chosen.key }

    /// For a target that leads to several remote databases: the one that was last reached before a restart. To be said before the replicator starts.
    package func wasLast(at remote: String) { _ = chosen.choose(remote) }

    /// The configuration for a connection to this remote database, whichever is chosen later.
    func at(_ remote: String?) -> ReplicatorConfiguration {
        guard let remote else { return self }
        var copy = self
        copy.remoteID = remote
        return copy
    }
}
