import Documents
import DocumentStore
import Interfaces

/// Which ways a replicator moves documents.
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
    /// Only watches what the resolver decides.
    public var shadow: ShadowResolver?
    /// Only these documents; nil for all.
    public var documentIDs: [DocumentID]?
    /// Sync Gateway channels to pull from; nil for all.
    public var channels: [String]?
    /// What the source leaves out, where it is a database of CouchDB's protocol.
    public var sourceFilter: SourceFilter?
    /// Deletions of documents that the other side never had stay where they are.
    public var skipsDeletions = false
    /// Documents of collections with a higher one are pushed first.
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

/// What a replicator does. The connector that reaches the peer is given beside it.
public struct ReplicatorConfiguration: Sendable {
    public var name: String
    public var database: Database
    /// The remote database as the configuration has it; checkpoints go by it.
    public var target: String
    /// The same as shown to people and told to plugins: without what only its operator may know. Default: the target.
    public var shownTarget: String
    /// What the remote database is known by, whatever its address is; nil: its target.
    public var remoteID: String?
    /// As whom the remote is asked, in words that stay the same for the same login; nil: nobody says. Another login has checkpoints of its own
    /// there, and may see other documents.
    public var login: String?
    public var type: ReplicatorType
    public var isContinuous: Bool
    public var collections: [CollectionReplication]
    public var retry: RetryMachine.Settings
    /// Documents that the peer took away are purged here.
    public var autoPurge: Bool
    /// Changes travel as deltas where the peer takes or sends them.
    public var usesDeltas = true
    /// Seconds between questions of an idle continuous pull whether the peer has something that it did not tell of; 0 for none.
    public var silenceIntervalSeconds = 0
    public var conflictObserver: ConflictObserver = { _ in }
    /// Hears of documents that were purged because the peer took access to them away, when that is durable: their number, for each batch.
    package var purgeObserver: @Sendable (CollectionName, Int) -> Void = { _, _ in }
    /// Told of what crosses the wire.
    public var wireLog: WireLog?
    /// Over all connections: how many proofs of blobs the peer asked for.
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

    /// Whatever is in the database goes to the remote.
    var pushesEverything: Bool {
        guard type.pushes, collections.allSatisfy({ $0.pushFilter == nil && $0.documentIDs == nil }) else { return false }
        let pushed = Set(collections.map(\.collection))
        return database.collections.allSatisfy { pushed.contains($0.name) }
    }

    /// What identifies the remote in checkpoints, and under which the store keeps what it knows of the remote's documents. No prefix tells an id
    /// from a target: the old target as id goes on from what was kept under it.
    var remoteKey: String { remoteID ?? target }
}
