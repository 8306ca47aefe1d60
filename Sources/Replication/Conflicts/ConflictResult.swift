import Documents
import DocumentStore
import Interfaces

/// The document that results from a decision, to compare two resolvers.
public struct ConflictResult: Sendable {
    /// Nil if the document is deleted.
    public var body: [UInt8]?

    public init(body: [UInt8]?) { self.body = body }

    /// Nil if nothing was decided.
    public init?(_ decision: ConflictDecision, of conflict: PolicyConflict) {
        switch decision {
        case .local: body = conflict.local?.body
        case .remote: body = conflict.remote?.body
        case .merged(let merged): body = merged
        case .delete: body = nil
        case .failed: return nil
        }
    }

    /// Whether both are deletions, or equal as JSON regardless of the order of members.
    public func isSame(as other: ConflictResult) -> Bool {
        guard let body, let otherBody = other.body else { return body == nil && other.body == nil }
        if body == otherBody { return true }
        guard let one = try? JSONValue(stored: body), let two = try? JSONValue(stored: otherBody) else { return false }
        return one == two
    }
}

extension ConflictDecision {
    /// Nil if nothing was decided.
    var resolution: Resolution? {
        switch self {
        case .local: .localWins
        case .remote: .remoteWins
        case .merged(let body): .merged(body)
        case .delete: .delete
        case .failed: nil
        }
    }
}

extension PolicyConflict {
    init(_ conflict: Conflict) {
        func document(_ side: Conflict.Side) -> PolicyDocument? {
            side.isDeleted ? nil : PolicyDocument(id: conflict.id, revision: side.revision, isDeleted: false, body: side.body)
        }
        self.init(
            id: conflict.id, local: document(conflict.local), remote: document(conflict.remote),
            base: conflict.base.map { PolicyDocument(id: conflict.id, revision: $0.revision, isDeleted: false, body: $0.body) },
            localRevision: conflict.local.revision, remoteRevision: conflict.remote.revision,
            baseRevision: conflict.base?.revision ?? conflict.baseRevision,
            localVersion: conflict.local.version, remoteVersion: conflict.remote.version)
    }
}

extension ConflictDecider.Answer {
    /// Set if the answer deletes a document that exists on both sides.
    var deletedSides: ConflictEvent.DeletedSides? {
        guard resolution == .delete, !conflict.local.isDeleted, !conflict.remote.isDeleted else { return nil }
        return ConflictEvent.DeletedSides(local: conflict.local.revision, remote: conflict.remote.revision)
    }
}

extension ConflictPlace {
    init(_ context: PolicyContext) {
        if let replicator = context.replicator {
            self.init(kind: .replicator, name: replicator, peer: context.remote, user: context.user)
        } else if let listener = context.listener {
            self.init(kind: .listener, name: listener, peer: context.remote, user: context.user)
        } else {
            self.init(kind: .save, name: "", peer: context.remote, user: context.user)
        }
    }
}

/// An event in the life of a conflict.
public struct ConflictEvent: Sendable {
    public enum Kind: Sendable {
        /// `number` is its number in the history; nil if no history is kept.
        case decided(DecisionKind, revision: RevisionID, number: Int64?)
        /// A resolver failed, and differently than the last time.
        case pending(PolicyFailure)
    }

    public var database: String
    public var collection: CollectionName
    public var id: DocumentID
    public var place: ConflictPlace
    /// The resolver; empty for the default rule.
    public var plugin: String
    /// The version of that resolver; empty for the default rule.
    public var version: String
    public var kind: Kind
    /// The sides of a document that existed on both and that the decision deletes; nil for every other event.
    public var deleted: DeletedSides?

    public struct DeletedSides: Sendable {
        public var local: RevisionID
        public var remote: RevisionID
    }

    init(_ context: PolicyContext, _ id: DocumentID, plugin: String, version: String, _ kind: Kind, deleted: DeletedSides? = nil) {
        database = context.database
        collection = context.collection
        self.id = id
        place = ConflictPlace(context)
        self.plugin = plugin
        self.version = version
        self.kind = kind
        self.deleted = deleted
    }
}

/// Receives decided and pending conflicts; must return immediately.
public typealias ConflictObserver = @Sendable (ConflictEvent) -> Void
