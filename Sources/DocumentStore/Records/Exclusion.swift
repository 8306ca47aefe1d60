import Documents

/// Why a document is not replicated with one peer in one direction.
public struct Exclusion: Sendable, Equatable {
    public enum Direction: Int64, Sendable {
        case push = 0, pull = 1
        /// Not a direction of replication, but access to a document; see ``Kind/orphaned``.
        case access = 8
        /// Not a direction either, but documents of the remote that cannot be stored here (with ``Kind/refused``). They are listed beside what is kept back
        /// of an earlier revision of the same document.
        case untaken = 9
    }
    public enum Kind: Int64, Sendable {
        /// Rejected by a filter; judged again when the document or the filter changes.
        case rejected = 0
        /// Held because something failed; retried.
        case held = 1
        /// The remote took the document away, and it stayed here (with ``Direction/access``).
        case orphaned = 8
        /// Refused by the peer; offered again on each new connection, and when the document changes. With ``Direction/untaken``: refused
        /// here. `plugin` then contains the domain of the error, and `version` its code.
        case refused = 2
    }

    /// Why a document is held.
    public enum Cause: Sendable { case plugin, blob, size }

    /// The `version` of a document held because of its size; its `plugin` is empty.
    public static let sizeMark = "max_document_bytes"

    public var cause: Cause { plugin.isEmpty ? (version == Self.sizeMark ? .size : .blob) : .plugin }

    public var remote: RemoteID
    public var direction: Direction
    public var kind: Kind
    public var id: DocumentID
    /// The local sequence (push); 0 if there is none.
    public var sequence: SequenceNumber
    /// The peer's sequence as JSON text (pull); empty if there is none.
    public var remoteSequence: String
    public var revision: RevisionID?
    /// The error message, cut at `StoreLimits.maxErrorTextBytes`.
    public var error: String
    public var plugin: String
    public var version: String
    /// When written: the number of tries to add.
    public var tries: Int
    /// Unix seconds of the first exclusion.
    public var since: Int64

    public init(
        remote: RemoteID, direction: Direction, kind: Kind, id: DocumentID, sequence: SequenceNumber = 0,
        remoteSequence: String = "", revision: RevisionID? = nil, error: String = "", plugin: String = "",
        version: String = "", tries: Int = 1, since: Int64 = 0
    ) {
        self.remote = remote
        self.direction = direction
        self.kind = kind
        self.id = id
        self.sequence = sequence
        self.remoteSequence = remoteSequence
        self.revision = revision
        self.error = error
        self.plugin = plugin
        self.version = version
        self.tries = tries
        self.since = since
    }
}
