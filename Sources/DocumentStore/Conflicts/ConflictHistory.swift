import Digests
import Documents
import Encodings

/// A body as stored in the conflict history.
public enum KeptBody: Sendable, Equatable {
    /// The JSON object.
    case whole([UInt8])
    /// For a body longer than `StoreLimits.maxHistoryBodyBytes`: the SHA-256 of its bytes in hex, and its size.
    case digest(String, bytes: Int)

    init(_ body: [UInt8]) {
        self = body.count <= StoreLimits.maxHistoryBodyBytes
            ? .whole(body) : .digest(Hex.encode(SHA256.hash(body)), bytes: body.count)
    }

    /// The stored form: a byte for the kind, then the body, or the digest as text, a space and the size.
    var stored: [UInt8] {
        switch self {
        case .whole(let body): [0] + body
        case .digest(let digest, let bytes): [1] + Array("\(digest) \(bytes)".utf8)
        }
    }

    /// Nil for a kind unknown to this version.
    init?(stored: [UInt8]) {
        switch stored.first {
        case 0: self = .whole(Array(stored.dropFirst()))
        case 1:
            let parts = String(decoding: stored.dropFirst(), as: UTF8.self).split(separator: " ")
            guard parts.count == 2, let bytes = Int(parts[1]) else { return nil }
            self = .digest(String(parts[0]), bytes: bytes)
        default: return nil
        }
    }

    /// The JSON object, unless it was too long to be stored.
    public var whole: [UInt8]? { if case .whole(let body) = self { body } else { nil } }
}

/// How a conflict was decided.
public enum DecisionKind: String, Sendable, CaseIterable {
    case local, remote, merged, delete

    init?(stored: Int64) {
        guard let index = Int(exactly: stored), Self.allCases.indices.contains(index) else { return nil }
        self = Self.allCases[index]
    }

    var stored: Int64 {
        switch self {
        case .local: 0
        case .remote: 1
        case .merged: 2
        case .delete: 3
        }
    }
}

/// Where a conflict arose.
public struct ConflictPlace: Sendable, Equatable {
    public enum Kind: Int64, Sendable { case replicator = 0, listener = 1, save = 2 }

    public var kind: Kind
    /// The configured name; empty for a local save.
    public var name: String
    /// URL of the remote or the peer's address.
    public var peer: String
    /// Name of the authenticated peer.
    public var user: String?

    public init(kind: Kind, name: String, peer: String, user: String? = nil) {
        self.kind = kind
        self.name = name
        self.peer = peer
        self.user = user
    }
}

/// A decided conflict to be recorded.
public struct DecidedConflict: Sendable {
    public var conflict: Conflict
    public var resolution: Resolution
    /// The revision that became current.
    public var result: RevisionID
    public var place: ConflictPlace
    /// Empty for the default rule.
    public var plugin: String
    public var version: String
    public var microseconds: Int64

    public init(
        conflict: Conflict, resolution: Resolution, result: RevisionID, place: ConflictPlace, plugin: String, version: String,
        microseconds: Int64
    ) {
        self.conflict = conflict
        self.resolution = resolution
        self.result = result
        self.place = place
        self.plugin = plugin
        self.version = version
        self.microseconds = microseconds
    }
}

/// The decision that an observing resolver would have made.
public struct ShadowVerdict: Sendable, Equatable {
    public enum Outcome: Int64, Sendable { case same = 0, differs = 1, failed = 2 }

    public var outcome: Outcome
    public var plugin: String
    public var version: String
    /// Nil if it failed.
    public var decision: DecisionKind?
    /// The body of a merge.
    public var body: KeptBody?
    /// Empty unless it failed.
    public var error: String
    public var microseconds: Int64

    /// - Parameter merged: the body of a merge.
    public init(
        outcome: Outcome, plugin: String, version: String, decision: DecisionKind?, merged: [UInt8]? = nil, error: String = "",
        microseconds: Int64
    ) {
        self.init(
            outcome: outcome, plugin: plugin, version: version, decision: decision, body: merged.map { KeptBody($0) }, error: error,
            microseconds: microseconds)
    }

    init(
        outcome: Outcome, plugin: String, version: String, decision: DecisionKind?, body: KeptBody?, error: String, microseconds: Int64
    ) {
        self.outcome = outcome
        self.plugin = plugin
        self.version = version
        self.decision = decision
        self.body = body
        self.error = error
        self.microseconds = microseconds
    }
}

/// One entry of the history of decided conflicts.
public struct ConflictHistoryEntry: Sendable, Equatable {
    public struct Side: Sendable, Equatable {
        public var revision: RevisionID
        public var isDeleted: Bool
        /// Nil if the side is deleted, if its body was not stored, or if bodies were not requested.
        public var body: KeptBody?
        /// Nil if it has none, or if bodies were not requested.
        public var version: VectorVersion?
    }

    /// Increases by one with each conflict decided in the database.
    public var number: Int64
    /// Unix seconds.
    public var at: Int64
    public var collection: Collection
    public var id: DocumentID
    public var place: ConflictPlace
    public var local: Side
    public var remote: Side
    /// The newest common ancestor.
    public var base: Side?
    public var decision: DecisionKind
    public var result: Side
    /// Empty for the default rule.
    public var plugin: String
    public var version: String
    public var microseconds: Int64
    /// Nil if no shadow ran, or it has not finished.
    public var shadow: ShadowVerdict?
}

/// The number of decided conflicts kept, and the outcome of shadows.
public struct ConflictHistoryCounts: Sendable, Equatable {
    public var kept = 0
    public var shadowSame = 0
    public var shadowDiffers = 0
    public var shadowFailed = 0

    public init() {}
}

/// Bits of the history's column `flags`.
enum HistoryFlags {
    static let localDeleted: Int64 = 1
    static let remoteDeleted: Int64 = 2
}
