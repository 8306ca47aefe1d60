import Documents
import DocumentStore
import Interfaces

/// Settings and limits of a pull.
struct PullSettings: Sendable {
    enum Role: Sendable {
        /// We subscribe to the peer's changes.
        case active
        /// The peer pushes to us.
        case passive(refusesPush: Bool)
    }

    var collection: CollectionName
    var role: Role
    var hasFilter: Bool
    var hasSyncFunction: Bool
    var hasResolver: Bool
    /// Documents that a filter keeps back are put on a list here, so that they can be judged again without the peer.
    var keepsLists: Bool
    /// The documents on that list are judged again. Not on a connection for chosen documents, which the peer is to send again.
    var reviewsHeld = true
    /// Documents that were counted as held when they were judged again. If they are held once more, they are not counted twice.
    var heldBefore: Set<DocumentID> = []
    /// If set, only these documents are wanted.
    var documentIDs: Set<DocumentID>?
    /// Deletions of documents that do not exist here are not wanted.
    var skipsDeletions = false
    /// Nothing is accepted; documents that are not here are counted as rejected.
    var asksOnly = false
    /// The peer refused revisions of ours because of what it has: that is requested, even if its name is known here.
    var insists = false
    /// We stay connected: a conflict may wait for its decision.
    var isContinuous = false
    /// An unsolicited revision is refused. CouchDB-like peers send all leaves of a document under one sequence.
    var refusesUnsolicited = false
    /// Largest body, in bytes: a larger one is held here, or refused if it is pushed to us.
    var largestBody = StoreLimits.maxBodyBytes
    var limits: ReplicationLimits

    var isPassive: Bool { if case .passive = role { true } else { false } }
}

/// An input of the pull machine.
enum PullEvent: Sendable {
    /// Conflicts and held revisions of earlier runs are to be processed.
    case started
    case listArrived(IncomingList)
    /// Answers ``PullAction/readList(_:)``.
    case listRead(Result<ListRows, ReplicationError>)
    /// Answers ``PullAction/findMissing(_:named:)``.
    case missing([RevisionNeed])
    /// Answers ``PullAction/checkProposals(_:)``.
    case proposalsChecked([ProposalVerdict])
    /// The store could not answer the questions that a list raises.
    case listFailed(any Error)
    case arrived(ReceivedRevision)
    /// A revision arrived as a delta that need not be applied: this is the outcome, whatever its body would be.
    case arrivedBodiless(ReceivedRevision, InsertOutcome)
    /// An arriving revision cannot be accepted. `isFinal`: the peer need not send it again.
    case arrivalRefused(RemoteSequence?, DocumentID?, ReplicationError, isFinal: Bool)
    /// There is no space here for a revision, or for this many bytes of an attachment of it.
    case outOfSpace(RemoteSequence?, DocumentID, ReplicationError, bytes: Int)
    /// The peer will not send what it offered.
    case withdrawn(RemoteSequence?)
    case insertion(InsertionEvent)
    /// Answers ``PullAction/applyRemovals(_:)``: what became of each.
    case removalsApplied([RemovalOutcome])
    /// The pull filter failed on these removals earlier, and can be asked again.
    case removalsAreDue([Removal])
    /// Answers ``PullAction/decide(_:)``.
    case decided([ConflictDecider.Outcome])
    case filterChanged
    case resolverChanged
    /// Answers ``PullAction/readHeld(after:)``.
    case heldRead(HeldRevisions.Page)
    /// Answers ``PullAction/startPauseTimer(seconds:)``.
    case pausesElapsed
    /// Answers ``PullAction/readConflicts(after:)``.
    case conflictsRead(ConflictDecider.Page)
    /// The peer subscribed to our changes on this connection.
    case peerPulls
    /// The peer acknowledged this revision of ours.
    case pushed(DocumentID, Version)
    /// Answers ``PullAction/checkForSpace(bytes:)``.
    case spaceChecked(isThere: Bool)
}

/// An output of the pull machine.
enum PullAction: Sendable {
    case readList(IncomingList)
    /// - Parameter named: the documents of all rows, including rows that cannot be accepted.
    case findMissing([RevisionOffer], named: [DocumentID])
    case checkProposals([Proposal])
    case answerChanges(AnswerHandle?, [ChangeAnswer])
    case answerProposals(AnswerHandle?, [ProposalAnswer], namesCurrent: Bool)
    case refuseList(AnswerHandle?, ReplicationError)
    /// Checks the bodies, which takes time for a large one.
    case check(BatchID, [ReceivedRevision])
    case fetchBlobs(FetchID, CheckedRevision)
    /// Fetches the attachments of a revision whose body names them as the peer does.
    case fetchAttachments(FetchID, CheckedRevision)
    /// The revisions with these fetches are refused; those in `staying` are stored, will come again soon, or are held here.
    case releaseBlobs([FetchID], staying: [FetchID])
    /// Asks the filter; an answer that the version in force has already given, see ``CheckedFields/answer``, counts as its verdict.
    case judge(BatchID, [CheckedRevision])
    /// Puts revisions on the list of held ones, durably.
    case keep(BatchID, [HeldRevision])
    /// Asks the sync function; likewise with ``CheckedFields/judgement``.
    case assign(BatchID, [CheckedRevision])
    case store(BatchID, [StorableRevision], ConflictHandling, settlesHeld: Bool)
    case applyRemovals([Removal])
    /// Tells the sender what became of a revision or a removal.
    case settle(AnswerHandle, Settlement)
    case decide([DocumentID])
    case readHeld(after: DocumentID?)
    case readConflicts(after: DocumentID?)
    /// Puts documents of the peer that cannot be stored here on a list, before a checkpoint passes them.
    case noteNotTaken([NotTaken])
    /// These documents do not exist at the peer any more.
    case forgetNotTaken([DocumentID])
    /// These revisions came from the peer: they need not be offered back, and a push that waits for them continues. `listed`: those that were put on the
    /// list of held and rejected revisions. `peerHad`: what the peer was known to have when it offered each. `here`: those that were here already.
    case notifyPush([(DocumentID, Version)], listed: Set<DocumentID> = [], peerHad: [PeerRevision] = [], here: Set<DocumentID> = [])
    /// The peer's revisions of these documents were here already, perhaps beneath a branch that has ended: it must be offered what is current.
    case notifyPushOfAlreadyHere([(DocumentID, Version)])
    /// The peer's revisions of these documents were refused because these are current here: it must be offered them, even if it sent them itself.
    case notifyPushOfRefusal([(DocumentID, Version)])
    /// Conflicts of these documents were decided: the result may have to be pushed.
    case notifyPushOfDecision([DocumentID])
    /// A document could not be fetched or stored: the peer has to offer it again, on another connection after a while.
    case reconnectLater
    /// Checks after a few seconds whether there is space for this many bytes.
    case checkForSpace(bytes: Int)
    /// There is space again: the peer will offer what did not fit on another connection.
    case reconnectNow
    case startFlushTimer
    /// The conflict is decided only after a pause, and is listed with the reason until then.
    case pauseDecision(DocumentID, seconds: Int)
    case startPauseTimer(seconds: Int)
    case report(DocumentEvent)
    case warn(String)
    case fail(any Error)
}

/// A document of the peer that cannot be stored here.
struct NotTaken: Sendable {
    var id: DocumentID
    /// Nil if it is not known, or not valid.
    var revision: RevisionID?
    var sequence: RemoteSequence?
    var error: ReplicationError
}
