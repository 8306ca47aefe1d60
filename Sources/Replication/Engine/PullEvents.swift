import Documents
import DocumentStore
import Interfaces

/// What a pull does, and within which bounds.
struct PullSettings: Sendable {
    enum Role: Sendable {
        /// We asked for the peer's changes.
        case active
        /// The peer pushes to us.
        case passive(refusesPush: Bool)
    }

    var collection: CollectionName
    var role: Role
    var hasFilter: Bool
    var hasSyncFunction: Bool
    var hasResolver: Bool
    /// What a filter keeps back is put on a list here, so that it can be looked at again without the peer.
    var keepsLists: Bool
    /// What is on that list is looked at again. Not on a connection that is for chosen documents, which the peer is to give anew.
    var reviewsHeld = true
    /// These were counted as held when they were looked at again. Held once more, they are not counted twice.
    var heldBefore: Set<DocumentID> = []
    /// Only these documents are wanted.
    var documentIDs: Set<DocumentID>?
    /// Deletions of documents that are not here are not wanted.
    var skipsDeletions = false
    /// Nothing is taken; what is not here is counted as rejected.
    var asksOnly = false
    /// A revision that was not asked for is refused. Peers of CouchDB's kind send the leaves of a document under one sequence.
    var takesOnlyWhatWasAskedFor = false
    /// Bytes of a body: what is larger is held here, or refused where it is pushed to us.
    var largestBody = StoreLimits.maxBodyBytes
    var limits: ReplicationLimits

    var isPassive: Bool { if case .passive = role { true } else { false } }
}

/// Something that happened to a pull.
enum PullEvent: Sendable {
    /// Conflicts and held revisions of earlier runs are to be taken up.
    case started
    case listArrived(IncomingList)
    /// Answers ``PullAction/readList(_:)``.
    case listRead(Result<ListRows, MessageError>)
    /// Answers ``PullAction/findMissing(_:named:)``.
    case missing([RevisionNeed])
    /// Answers ``PullAction/checkProposals(_:)``.
    case proposalsChecked([ProposalVerdict])
    /// The store could not answer what a list needs.
    case listFailed(any Error)
    case arrived(ReceivedRevision)
    /// A revision came that cannot be taken. `isFinal`: the peer need not send it again.
    case arrivalRefused(RemoteSequence?, DocumentID?, ReplicationError, isFinal: Bool)
    /// There is no room here for a revision, or so many bytes of an attachment of it.
    case noRoom(RemoteSequence?, DocumentID, ReplicationError, bytes: Int)
    /// The peer will not send what it offered.
    case withdrawn(RemoteSequence?)
    case insertion(InsertionEvent)
    /// Answers ``PullAction/takeAway(_:)``.
    case takenAway([TakenAway])
    /// The pull filter failed at these removals earlier, and may decide now.
    case removalsAreDue([Removal])
    /// Answers ``PullAction/decide(_:)``.
    case decided([ConflictDecider.Outcome])
    case filterChanged
    case resolverChanged
    /// Answers ``PullAction/readHeld(after:)``.
    case heldRead(HeldRevisions.Page)
    /// Answers ``PullAction/readConflicts(after:)``.
    case conflictsRead(ConflictDecider.Page)
    /// The peer subscribed to our changes on this connection.
    case peerPulls
    /// The peer acknowledged this revision of ours.
    case pushed(DocumentID, Version)
    /// Answers ``PullAction/lookForRoom(bytes:)``.
    case roomLooked(isThere: Bool)
}

/// Something to do for a pull.
enum PullAction: Sendable {
    case readList(IncomingList)
    /// - Parameter named: the documents of all rows, also of those that cannot be taken.
    case findMissing([RevisionOffer], named: [DocumentID])
    case checkProposals([Proposal])
    case answerChanges(AnswerHandle?, [ChangeAnswer])
    case answerProposals(AnswerHandle?, [ProposalAnswer], namesCurrent: Bool)
    case refuseList(AnswerHandle?, MessageError)
    case check(BatchID, [ReceivedRevision])
    case fetchBlobs(FetchID, CheckedRevision)
    /// The attachments of a revision whose body names them as the peer does.
    case bringAttachments(FetchID, CheckedRevision)
    /// Revisions whose blobs were asked for are refused; others are stored, come again before long, or wait here.
    case releaseBlobs([FetchID], staying: [FetchID])
    /// Asks the filter; what the version in force has said already, see ``CheckedFields/answer``, is its verdict.
    case judge(BatchID, [CheckedRevision])
    case keep(BatchID, [HeldRevision])
    /// Asks the sync function; likewise with ``CheckedFields/judgement``.
    case assign(BatchID, [CheckedRevision])
    case store(BatchID, [StorableRevision], ConflictHandling, settlesHeld: Bool)
    case takeAway([Removal])
    case settle(AnswerHandle, Settlement)
    case decide([DocumentID])
    case readHeld(after: DocumentID?)
    case readConflicts(after: DocumentID?)
    /// These came from the peer: they need not be offered back, and a push that waits for them goes on.
    case tellPush([(DocumentID, Version)])
    /// The peer was refused its revisions of these documents, because these are here: it is to be offered them, even if it sent
    /// them itself.
    case tellPushOfRefusal([(DocumentID, Version)])
    /// Something was decided: it may be to push.
    case tellPushOfDecision([DocumentID])
    /// A document could not be had or stored: the peer has to offer it again, on another connection after a while.
    case comeBackLater
    /// Sees, after a few seconds, whether there is room for so much.
    case lookForRoom(bytes: Int)
    /// There is room again: the peer offers on another connection what did not fit.
    case comeBackNow
    case startFlushTimer
    case report(DocumentEvent)
    case warn(String)
    case fail(any Error)
}
