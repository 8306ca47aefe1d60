import Documents
import DocumentStore
import Interfaces

/// How a revision's way into the store ended.
struct Insertion: Sendable {
    enum End: Sendable {
        case stored(InsertOutcome)
        /// A filter or the sync function said no, or could not decide; `isListed`: it waits here for another version.
        case keptBack(PolicyFailure?, reason: String, isListed: Bool)
        /// It is too large, or a blob of it cannot be taken; it waits here, listed.
        case held(ReplicationError, KeptThere.Reason)
        /// It cannot be stored as it is.
        case refused(ReplicationError)
        /// It cannot be had or stored now; the peer has to offer it again.
        case postponed(ReplicationError)
        /// It says that the document was taken away.
        case isRemoval

        /// It is stored, comes again before long, or waits here for a mend: its blobs need not come once more.
        var leavesBlobs: Bool {
            switch self {
            case .stored(.inserted), .stored(.insertedConflict), .postponed, .held, .keptBack(_?, _, _): true
            case .stored, .keptBack(nil, _, _), .refused, .isRemoval: false
            }
        }
    }

    var id: DocumentID
    var version: Version
    var sequence: RemoteSequence?
    var replyTo: AnswerHandle?
    var isDeleted: Bool
    /// Its blobs were asked for.
    var fetch: FetchID?
    /// It waited on the list of what was kept back.
    var wasKeptBack = false
    /// What it would take, with the blobs that are not here.
    var bytes = 0
    var end: End

    /// The most that a document is taken to need, whatever lengths it claims: more than any disk has is all the same.
    static let most = 1 << 60

    init(_ revision: CheckedRevision, _ end: End) {
        let blobs = revision.hasShownBlobs ? 0 : revision.blobs.reduce(0) { min(Self.most, $0 + Int(min(UInt64(Self.most), $1.length ?? 0))) }
        bytes = revision.body.count + blobs
        (fetch, wasKeptBack) = (revision.fetch, revision.wasKeptBack)
        (id, version, sequence, replyTo) = (revision.id, revision.revision, revision.sequence, revision.replyTo)
        isDeleted = revision.isDeleted
        self.end = end
    }

    init(_ revision: ReceivedRevision, _ end: End) {
        (id, version, sequence, replyTo) = (revision.id, revision.revision, revision.sequence, revision.replyTo)
        isDeleted = revision.isDeleted
        self.end = end
    }
}
