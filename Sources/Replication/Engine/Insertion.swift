import Documents
import DocumentStore
import Interfaces

/// The outcome of a revision's way into the store.
struct Insertion: Sendable {
    enum End: Sendable {
        case stored(InsertOutcome)
        /// A filter or the sync function rejected it; `isListed`: it waits here for another version of the policy.
        case rejected(reason: String, isListed: Bool)
        /// A filter or the sync function could not decide; likewise.
        case undecided(PolicyFailure, isListed: Bool)
        /// It is too large, or a blob of it cannot be obtained; it is on the list here.
        case held(ReplicationError, KeptByPeer.Reason)
        /// It can never be stored as it is.
        case refused(ReplicationError)
        /// It cannot be obtained or stored at the moment; the peer has to offer it again.
        case postponed(ReplicationError)
        /// It is a removal: the document was taken away.
        case isRemoval

        /// It is stored, will come again soon, or waits here until something is fixed: its blobs are kept and need not be sent again.
        var leavesBlobs: Bool {
            switch self {
            case .stored(.inserted), .stored(.insertedConflict), .postponed, .held, .undecided: true
            case .stored, .rejected, .refused, .isRemoval: false
            }
        }
    }

    var id: DocumentID
    var version: Version
    var sequence: RemoteSequence?
    var replyTo: AnswerHandle?
    var isDeleted: Bool
    /// Set if its blobs were requested.
    var fetch: FetchID?
    /// It came from the kept-back list.
    var wasKeptBack = false
    /// Space it would take, including blobs that are not here, in bytes.
    var bytes = 0
    /// What the peer was known to have when it offered it.
    var peerHad = PeerRevision.unknown
    var end: End

    init(_ revision: CheckedRevision, _ end: End) {
        let most = EngineBounds.assumedDocumentBytes
        let blobs = revision.hasShownBlobs ? 0 : revision.blobs.reduce(0) { min(most, $0 + Int(min(UInt64(most), $1.length ?? 0))) }
        bytes = revision.body.count + blobs
        (fetch, wasKeptBack) = (revision.fetch, revision.wasKeptBack)
        (id, version, sequence, replyTo) = (revision.id, revision.revision, revision.sequence, revision.replyTo)
        (isDeleted, peerHad) = (revision.isDeleted, revision.peerHad)
        self.end = end
    }

    init(_ revision: ReceivedRevision, _ end: End) {
        (id, version, sequence, replyTo) = (revision.id, revision.revision, revision.sequence, revision.replyTo)
        (isDeleted, peerHad) = (revision.isDeleted, revision.peerHad)
        self.end = end
    }
}
