/// The vocabulary of the replication protocol, as on the wire.
public enum Profile {
    public static let getCollections = "getCollections"
    public static let getCheckpoint = "getCheckpoint"
    public static let setCheckpoint = "setCheckpoint"
    public static let subChanges = "subChanges"
    public static let unsubChanges = "unsubChanges"
    public static let changes = "changes"
    public static let proposeChanges = "proposeChanges"
    public static let rev = "rev"
    public static let norev = "norev"
    public static let getAttachment = "getAttachment"
    public static let proveAttachment = "proveAttachment"

    static let known: Set<String> = [
        getCollections, getCheckpoint, setCheckpoint, subChanges, unsubChanges, changes, proposeChanges, rev, norev, getAttachment,
        proveAttachment,
    ]
}

/// Names of message properties.
enum Property {
    static let client = "client"
    static let collection = "collection"
    static let rev = "rev"
    static let since = "since"
    static let continuous = "continuous"
    static let batch = "batch"
    static let activeOnly = "activeOnly"
    static let filter = "filter"
    static let channels = "channels"
    static let revocations = "revocations"
    static let versioning = "versioning"
    static let future = "future"
    static let id = "id"
    static let sequence = "sequence"
    static let history = "history"
    static let deleted = "deleted"
    static let noConflicts = "noconflicts"
    static let deltaSource = "deltaSrc"
    static let error = "error"
    static let reason = "reason"
    static let maxHistory = "maxHistory"
    static let blobs = "blobs"
    static let deltas = "deltas"
    static let conflictIncludesRev = "conflictIncludesRev"
    static let digest = "digest"
    static let docID = "docID"
    static let compress = "compress"
    static let noop = "noop"
    /// A Nightjar extension of getAttachment and its reply: only the bytes from this offset on. The reply contains it if it honours the request.
    static let offset = "offset"
    /// A Nightjar extension between two Nightjars that name revisions by versions: adds the revision ids, so that these are the same everywhere.
    static let treeRevision = "treeRev"
    static let treeHistory = "treeHistory"
    /// A Nightjar extension of the reply to proposeChanges whose status still says "send it": each revision would be refused with HTTP/403, for this
    /// reason. Couchbase Lite, which would stop permanently if the proposals themselves were refused, does not know it, and continues after those
    /// individual refusals.
    static let refusesRevisions = "refusesRevs"
    /// A Nightjar extension of the reply to a revision: it is on a list of the peer instead of in its database, see ``KeptByPeer/Reason``. For other
    /// peers, it counts as accepted.
    static let kept = "kept"
    /// A Nightjar extension of the empty list that ends a backlog of requested documents: there is a push filter, which may have failed on some of them.
    /// That they were not announced does not mean that they are gone. Whether it failed on any is not told, nor whether they exist.
    static let filtered = "filtered"
}

/// Values of the property `kept`.
extension KeptByPeer.Reason {
    var word: String {
        switch self {
        case .rejected: "rejected"
        case .held: "held"
        case .blob: "blob"
        case .size: "size"
        }
    }

    init?(word: String) {
        guard let reason = Self.allCases.first(where: { $0.word == word }) else { return nil }
        self = reason
    }
}

/// Whether a text means true as real peers spell it: LiteCore writes `1` or `true`, Sync Gateway `true`.
func isTrue(_ text: String?) -> Bool {
    guard let text else { return false }
    switch text.lowercased() {
    case "true", "yes", "t", "y": return true
    default:
        guard let number = Int(text) else { return false }
        return number != 0
    }
}
