import Documents
import DocumentStore
import Interfaces
import Logging

/// What the listening side allows one peer.
public struct PassiveConfiguration: Sendable {
    public var listener: String
    public var database: Database
    public var principal: Principal
    /// The listener itself refuses pushes.
    public var isReadOnly: Bool
    /// What peers may pull.
    public var pushFilter: (any DocumentFilter)?
    /// Of collections that are judged by others than these two.
    public var ownFilters: [CollectionName: OwnFilters] = [:]

    /// The filters of one collection.
    public struct OwnFilters: Sendable {
        public var push: (any DocumentFilter)?
        public var pull: (any DocumentFilter)?

        public init(push: (any DocumentFilter)?, pull: (any DocumentFilter)?) { (self.push, self.pull) = (push, pull) }
    }

    /// What it allows in one collection.
    package func of(_ collection: CollectionName) -> PassiveConfiguration {
        guard let own = ownFilters[collection] else { return self }
        var copy = self
        (copy.pushFilter, copy.pullFilter) = (own.push, own.pull)
        return copy
    }

    /// Shared by all peers of a listener: what the push filter kept from them.
    public var kept: KeptFromPeers
    /// Shared as well: who guesses at documents that he may not see.
    public var hiddenConflicts: HiddenConflicts
    /// What peers may push.
    public var pullFilter: (any DocumentFilter)?
    /// Decides what a peer that only pushes brings into conflict; nil to refuse it. A peer that pulls as well is refused in
    /// any case: it gets our revision and decides itself, as Couchbase Lite does.
    public var resolver: (any ConflictResolver)?
    public var shadow: ShadowResolver?
    public var conflictObserver: ConflictObserver = { _ in }
    /// Told that a peer that keeps every branch brought conflicts, and that there is no resolver for them.
    public var leavesConflicts: @Sendable () -> Void = {}
    /// Told of what crosses the wire.
    public var wireLog: WireLog?
    /// Decides about writes and assigns channels, which then bound what the peer may pull. A `ChannelRouter` has to run for each
    /// collection, else documents that come another way hold up the feeds of peers.
    public var syncFunction: (any SyncFunction)?
    /// Which collections the peer may reach, whoever it is; nil for all.
    public var collections: Set<CollectionName>?
    /// How the peer is told that a document left its channels.
    public var subprotocol = Subprotocol.generation3
    /// Changes travel as deltas where the peer takes or sends them.
    public var usesDeltas = true
    /// Shared by the sessions of a listener: who asked for how many proofs of blobs.
    public var proofs: ProofAccounts
    /// By which the peer is known there, over all its connections.
    public var proofAccount = ""
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
    /// Start over: the saved checkpoint is ignored.
    public var resets: Bool
    /// Speak without collections from the first message, to a peer that was seen to refuse them.
    public var startsLegacy: Bool
    /// A continuous pull of chosen documents asks for all and picks here, with a peer that was seen not to pick them itself.
    public var picksHere: Bool
    /// How many sessions before it, one after the other, ended to ask once more for what could not be had.
    var comebacks = 0
    /// Off for a run that is not to be gone on with, so that neither side keeps a checkpoint of it.
    public var savesCheckpoint: Bool
    /// Not nil: what the peer has behind these sequences, one for each collection, is counted as rejected where it is not here, and nothing
    /// is taken.
    var asksOnlySince: [RemoteSequence?]?
    /// What the peer has behind these sequences (nil: everything) is pulled, wherever the checkpoint is.
    var startsSince: [CollectionName: RemoteSequence?] = [:]
    /// What was kept back in earlier runs is looked at again.
    var reviewsHeld = true
    /// Documents that the replicator has counted as held, and asks for once more.
    var heldBefore: [CollectionName: Set<DocumentID>] = [:]

    public init(
        replicator: ReplicatorConfiguration, resets: Bool = false, startsLegacy: Bool = false, picksHere: Bool = false,
        savesCheckpoint: Bool = true
    ) {
        self.replicator = replicator
        self.resets = resets
        self.startsLegacy = startsLegacy
        self.picksHere = picksHere
        self.savesCheckpoint = savesCheckpoint
    }
}

/// Which side of a connection a session is.
public enum SessionRole: Sendable {
    /// We opened the connection and decide what is pushed and pulled.
    case active(ActiveConfiguration)
    /// A peer opened it.
    case passive(PassiveConfiguration)
}

extension SessionRole {
    /// What is spoken over a connection.
    func subprotocol(_ transport: any MessageTransport) -> Subprotocol {
        switch self {
        case .active: transport.subprotocol ?? .generation3
        case .passive(let passive): transport.subprotocol ?? passive.subprotocol
        }
    }

    /// Whose unfinished blobs may be gone on with: those of the same peer. Nil where it cannot be told from others.
    var blobOwner: String? {
        switch self {
        case .active(let active): "remote \(active.replicator.remoteKey)"
        case .passive(let passive): passive.proofAccount.isEmpty ? nil : "listener \(passive.listener) \(passive.proofAccount)"
        }
    }

    /// There may be documents here of which the peer is to learn nothing.
    var hidesDocuments: Bool {
        switch self {
        case .active(let active): !active.replicator.pushesEverything
        case .passive(let passive): passive.channelPeer != nil || passive.pushFilter != nil
        }
    }

    /// What the two sides of a connection call revisions.
    func naming(_ transport: any MessageTransport) -> RevisionNaming {
        subprotocol(transport) != .generation4 ? .trees : transport.peerHasBothNames ? .vectors : .versionsOnly
    }

    /// Where a policy is asked.
    func policyContext(_ collection: CollectionName, _ direction: Direction, _ database: Database, remote: String) -> PolicyContext {
        switch self {
        case .active(let active):
            PolicyContext(
                database: database.name, collection: collection, direction: direction, replicator: active.replicator.name,
                remote: active.replicator.shownTarget)
        case .passive(let passive): passive.policyContext(collection, direction, remote: remote)
        }
    }

    /// Who is at the other end, for people.
    func peerWords(_ address: String) -> String {
        switch self {
        case .active(let active): return "replicator \(active.replicator.name) (\(active.replicator.shownTarget))"
        case .passive(let passive): return "\(passive.principal.name.map { "user \($0) at \(address)" } ?? address) by listener \(passive.listener)"
        }
    }

    /// This side makes deltas, and takes them: not where bodies change on their way. Both sides have the same revisions then and not the same
    /// bodies, and a delta from one applied to the other makes a third.
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

/// What does not go on, while the rest does.
public struct PeerRefusals: Sendable, Equatable {
    /// It takes nothing of us.
    public var push: ReplicationError?
    /// It keeps no checkpoint of ours, so that it is kept here only.
    public var checkpoint: ReplicationError?
    /// There is no room here for what it has: the pull waits.
    public var room: ReplicationError?

    /// Why the two sides are not in step, although nothing is under way.
    public var behind: ReplicationError? { push ?? room }

    public init() {}
}

/// Since when a replicator is kept behind (seconds since 1970): the same on one connection after the other.
public struct BehindTimes: Sendable, Equatable {
    public private(set) var push: Int64?
    public private(set) var room: Int64?

    /// - Parameter isInStep: all that there was to do was done; until then nobody knows whether the next connection fares better.
    mutating func note(_ refusals: PeerRefusals, isInStep: Bool, now: Int64) {
        push = refusals.push == nil ? isInStep ? nil : push : push ?? now
        room = refusals.room == nil ? isInStep ? nil : room : room ?? now
    }
}

/// What a session tells its owner. The closures are called on the event loop and must return at once.
public struct SessionObserver: Sendable {
    public var activityChanged: @Sendable (ActivityLevel) -> Void
    public var documents: @Sendable ([DocumentEvent]) -> Void
    public var refusals: @Sendable (PeerRefusals) -> Void
    public var ended: @Sendable (SessionEnd) -> Void
    /// The peer is behind where it was, so that both sides are compared anew.
    package var remoteWentBack: @Sendable (_ message: String, CollectionName) -> Void = { _, _ in }
    /// The peer keeps a checkpoint, and so do we.
    package var checkpointSaved: @Sendable (CollectionName) -> Void = { _ in }
    /// A blob goes on at this offset, behind what an earlier connection has moved of it.
    package var blobResumed: @Sendable (BlobDigest, _ offset: UInt64) -> Void = { _, _ in }
    /// The peer has these documents, and offers a revision of each.
    var offered: (@Sendable (CollectionName, [DocumentID]) -> Void)?

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
    /// What it says of the next one.
    public enum Ending: Sendable {
        /// Nothing: the end was asked for, or an error brought it about.
        case over
        /// Active and one-shot: everything was exchanged.
        case complete
        /// The peer answered `getCollections` and then refused the collections: speak the legacy mode next time.
        case wantsLegacy
        /// The peer refused to pick documents in a continuous pull: ask for all next time, and pick here.
        case picksHere
        /// Another connection is wanted; no error brought the end about.
        case reconnects
    }

    /// Nil when all went well, or the end was asked for.
    public var error: ReplicationError?
    public var ending = Ending.over
    /// The next one asks once more for what the peer could not send, or what had no room here.
    var comesBack = false
    /// The error is that the peer saved no checkpoint: the next one does all of it again.
    var savedNoCheckpoint = false
}
