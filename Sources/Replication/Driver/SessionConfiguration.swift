import Documents
import DocumentStore
import Interfaces
import Logging

/// What the listening side allows a peer.
public struct PassiveConfiguration: Sendable {
    public var listener: String
    public var database: Database
    public var principal: Principal
    /// Whether the listener refuses pushes.
    public var isReadOnly: Bool
    /// Decides what peers may pull.
    public var pushFilter: (any DocumentFilter)?
    /// For collections that use other filters than ``pushFilter`` and ``pullFilter``.
    public var ownFilters: [CollectionName: OwnFilters] = [:]

    /// The filters of one collection.
    public struct OwnFilters: Sendable {
        public var push: (any DocumentFilter)?
        public var pull: (any DocumentFilter)?

        public init(push: (any DocumentFilter)?, pull: (any DocumentFilter)?) { (self.push, self.pull) = (push, pull) }
    }

    /// The configuration for one collection.
    package func of(_ collection: CollectionName) -> PassiveConfiguration {
        guard let own = ownFilters[collection] else { return self }
        var copy = self
        (copy.pushFilter, copy.pullFilter) = (own.push, own.pull)
        return copy
    }

    /// Documents that the push filter kept from peers, shared by all peers of a listener.
    public var kept: KeptFromPeers
    /// Guesses at documents that a peer may not see, shared by all peers of a listener.
    public var hiddenConflicts: HiddenConflicts
    /// Decides what peers may push.
    public var pullFilter: (any DocumentFilter)?
    /// Resolves conflicts created by a peer that only pushes; nil to refuse them. A peer that also pulls is refused in any case: it gets our revision
    /// and decides itself, as Couchbase Lite does.
    public var resolver: (any ConflictResolver)?
    /// Observes the decisions of ``resolver`` without influencing them.
    public var shadow: ShadowResolver?
    /// Called for each conflict that ``resolver`` decides, once the decision is durable, and when it fails on one in another way than before.
    public var conflictObserver: ConflictObserver = { _ in }
    /// Called when a peer that keeps every branch created conflicts, and there is no resolver for them.
    public var leavesConflicts: @Sendable () -> Void = {}
    /// Records what crosses the wire.
    public var wireLog: WireLog?
    /// Decides about writes and assigns channels, which then limit what the peer may pull. A `ChannelRouter` has to run for each collection;
    /// otherwise documents that arrive in other ways block the feeds of peers.
    public var syncFunction: (any SyncFunction)?
    /// The collections that any peer may access; nil for all.
    public var collections: Set<CollectionName>?
    /// Determines how the peer is told that a document left its channels.
    public var subprotocol = Subprotocol.generation3
    /// Whether changes are sent as deltas if the peer accepts or sends them.
    public var usesDeltas = true
    /// Use of blob proofs by peers, shared by the sessions of a listener.
    public var proofs: ProofAccounts
    /// Identifies the peer in ``proofs``, over all its connections.
    public var proofAccount = ""
    /// The peer's address, without a port, with whose other connections this one counts in the memory budget; nil if it counts with no other.
    public var origin: String?
    public var limits: ReplicationLimits

    public init(
        listener: String, database: Database, principal: Principal = .anonymous, isReadOnly: Bool = false,
        pushFilter: (any DocumentFilter)? = nil, pullFilter: (any DocumentFilter)? = nil, syncFunction: (any SyncFunction)? = nil,
        subprotocol: Subprotocol = .generation3, limits: ReplicationLimits = .init()
    ) {
        self.syncFunction = syncFunction
        self.subprotocol = subprotocol
        self.listener = listener
        self.database = database
        self.principal = principal
        self.isReadOnly = isReadOnly
        self.pushFilter = pushFilter
        self.pullFilter = pullFilter
        self.limits = limits
        proofs = ProofAccounts(limits)
        kept = KeptFromPeers(listener: listener)
        hiddenConflicts = HiddenConflicts(database.environment.time)
    }
}

/// What the connecting side does in one run.
public struct ActiveConfiguration: Sendable {
    public var replicator: ReplicatorConfiguration
    /// Start over: ignore the saved checkpoint.
    public var resets: Bool
    /// Do not name collections from the first message on, for a peer that was seen to refuse them.
    public var startsLegacy: Bool
    /// A continuous pull of chosen documents requests all changes and selects here, for a peer that was seen not to select them itself.
    public var selectsLocally: Bool
    /// How many consecutive sessions before this one ended in order to request again what could not be obtained.
    var comebacks = 0
    var caution = MemoryCaution.none
    /// False for a run that will not be continued, so that neither side keeps a checkpoint of it.
    public var savesCheckpoint: Bool
    /// If set, the peer's documents after these sequences, one for each collection, are counted as rejected if they are not here, and nothing is
    /// accepted.
    var asksOnlySince: [RemoteSequence?]?
    /// The peer refused revisions of ours because of what it has: that is requested, even if its name is known here.
    var insists = false
    /// The peer's changes after these sequences (nil: all of them) are pulled, regardless of the checkpoint.
    var startsSince: [CollectionName: RemoteSequence?] = [:]
    /// What was kept back in earlier runs is looked at again.
    var reviewsHeld = true
    /// Documents that the replicator has already counted as held, and requests again.
    var heldBefore: [CollectionName: Set<DocumentID>] = [:]

    public init(
        replicator: ReplicatorConfiguration, resets: Bool = false, startsLegacy: Bool = false, selectsLocally: Bool = false,
        savesCheckpoint: Bool = true
    ) {
        self.replicator = replicator
        self.resets = resets
        self.startsLegacy = startsLegacy
        self.selectsLocally = selectsLocally
        self.savesCheckpoint = savesCheckpoint
    }
}

/// The side of a connection that a session is on.
public enum SessionRole: Sendable {
    /// We opened the connection and decide what is pushed and pulled.
    case active(ActiveConfiguration)
    /// A peer opened it.
    case passive(PassiveConfiguration)
}

extension SessionRole {
    /// The subprotocol spoken over a connection.
    func subprotocol(_ transport: any MessageTransport) -> Subprotocol {
        switch self {
        case .active: transport.subprotocol ?? .generation3
        case .passive(let passive): transport.subprotocol ?? passive.subprotocol
        }
    }

    /// The peer whose unfinished blobs may be continued: only those of the same peer. Nil if it cannot be identified.
    var blobOwner: String? {
        switch self {
        case .active(let active): "remote \(active.replicator.remoteKey)"
        case .passive(let passive): passive.proofAccount.isEmpty ? nil : "listener \(passive.listener) \(passive.proofAccount)"
        }
    }

    /// There may be documents here that the peer must learn nothing about.
    var hidesDocuments: Bool {
        switch self {
        case .active(let active): !active.replicator.pushesEverything
        case .passive(let passive): passive.channelPeer != nil || passive.pushFilter != nil
        }
    }

    /// How the two sides of a connection name revisions.
    func naming(_ transport: any MessageTransport) -> RevisionNaming {
        subprotocol(transport) != .generation4 ? .trees : transport.peerHasBothNames ? .vectors : .versionsOnly
    }

    /// The context passed to a policy.
    func policyContext(_ collection: CollectionName, _ direction: Direction, _ database: Database, remote: String) -> PolicyContext {
        switch self {
        case .active(let active):
            PolicyContext(
                database: database.name, collection: collection, direction: direction, replicator: active.replicator.name,
                remote: active.replicator.shownTarget)
        case .passive(let passive): passive.policyContext(collection, direction, remote: remote)
        }
    }

    /// A description of the peer, for people.
    func describePeer(_ address: String) -> String {
        switch self {
        case .active(let active): return "replicator \(active.replicator.name) (\(active.replicator.shownTarget))"
        case .passive(let passive): return "\(passive.principal.name.map { "user \($0) at \(address)" } ?? address) by listener \(passive.listener)"
        }
    }

    /// Whether this side creates and accepts deltas. Not where bodies are changed in transit: both sides then have the same revisions with different
    /// bodies, and a delta of one applied to the other yields a third.
    var usesDeltas: Bool {
        let filters: [(any DocumentFilter)?]
        switch self {
        case .active(let active):
            guard active.replicator.usesDeltas else { return false }
            filters = active.replicator.collections.flatMap { [$0.pushFilter, $0.pullFilter] }
        case .passive(let passive):
            guard passive.usesDeltas else { return false }
            filters = [passive.pushFilter, passive.pullFilter]
        }
        return !filters.contains { $0?.changesBodies ?? false }
    }
}

/// The parts of a replication that do not work, while the rest does.
public struct PeerRefusals: Sendable, Equatable {
    /// The peer accepts nothing from us.
    public var push: ReplicationError?
    /// The peer keeps no checkpoint of ours, so it is kept only here.
    public var checkpoint: ReplicationError?
    /// There is no free space here for the peer's documents: the pull waits.
    public var space: ReplicationError?

    /// Why the two sides are not in sync although nothing is in flight.
    public var behind: ReplicationError? { push ?? space }

    public init() {}
}

/// Since when a replicator has been behind, in seconds since 1970; kept across connections.
public struct BehindTimes: Sendable, Equatable {
    /// Since when the peer has accepted nothing from us; nil while it does.
    public private(set) var push: Int64?
    /// Since when there has been no free space here for the peer's documents; nil while there is.
    public private(set) var space: Int64?

    /// - Parameter isInStep: everything there was to do is done; before that, it is unknown whether this connection fares better than the last.
    mutating func note(_ refusals: PeerRefusals, isInStep: Bool, now: Int64) {
        push = refusals.push == nil ? isInStep ? nil : push : push ?? now
        space = refusals.space == nil ? isInStep ? nil : space : space ?? now
    }
}

/// What a session reports to its owner. The closures are called on the event loop and must return immediately.
public struct SessionObserver: Sendable {
    /// The session became busy or idle, or has stopped.
    public var activityChanged: @Sendable (ActivityLevel) -> Void
    /// What happened to documents, in order; several at a time, at the latest when the session becomes idle or ends.
    public var documents: @Sendable ([DocumentEvent]) -> Void
    /// Active: what does not work has changed; it is given in full.
    public var refusals: @Sendable (PeerRefusals) -> Void
    /// The session has ended; called once, as the last. If the peer's last acknowledgements have to be recorded, it is called after that, on the
    /// thread of the store.
    public var ended: @Sendable (SessionEnd) -> Void
    /// The peer is in an older state than before, so both sides are compared from scratch.
    package var remoteWentBack: @Sendable (_ message: String, CollectionName) -> Void = { _, _ in }
    /// Both the peer and we have saved a checkpoint.
    package var checkpointSaved: @Sendable (CollectionName) -> Void = { _ in }
    /// A blob transfer resumes at this offset, after the part that an earlier connection transferred.
    package var blobResumed: @Sendable (BlobDigest, _ offset: UInt64) -> Void = { _, _ in }
    /// The peer has these documents, and offers a revision of each.
    var offered: (@Sendable (CollectionName, [DocumentID]) -> Void)?
    /// The peer has a push filter for the collection, which may have failed on some of the requested documents; it does not say on which.
    var filters: (@Sendable (CollectionName) -> Void)?

    public init(
        activityChanged: @escaping @Sendable (ActivityLevel) -> Void = { _ in },
        documents: @escaping @Sendable ([DocumentEvent]) -> Void = { _ in },
        refusals: @escaping @Sendable (PeerRefusals) -> Void = { _ in },
        ended: @escaping @Sendable (SessionEnd) -> Void = { _ in }
    ) {
        self.activityChanged = activityChanged
        self.documents = documents
        self.refusals = refusals
        self.ended = ended
    }
}

/// How a session ended.
public struct SessionEnd: Sendable {
    /// What the end means for the next session.
    public enum Ending: Sendable {
        /// Nothing: the end was requested, or caused by an error.
        case over
        /// Active and one-shot: everything was exchanged.
        case complete
        /// The peer answered `getCollections` and then refused the collections: use legacy mode next time.
        case wantsLegacy
        /// The peer refused to select documents in a continuous pull: request all changes next time, and select here.
        case selectsLocally
        /// Another connection is needed; the end was not caused by an error.
        case reconnects
    }

    /// Nil if all went well, or the end was requested.
    public var error: ReplicationError?
    public var ending = Ending.over
    /// The next session requests again what the peer could not send, or what had no space here.
    var needsReconnect = false
    /// The error is that the peer saved no checkpoint: the next session repeats everything.
    var savedNoCheckpoint = false
    /// The connection ended because memory was used up here.
    var wasEvicted = false
}
