import Documents
import DocumentStore
import Interfaces

/// Which side initiated the transfer.
enum PushStyle: Sendable {
    /// We push: documents are proposed, and the peer answers each with a status.
    case propose
    /// The peer pulls: changes are announced, and the peer answers which ones it wants.
    case announce
}

/// Settings and limits of a push.
struct PushSettings: Sendable {
    var collection: CollectionName
    var style: PushStyle
    var isContinuous: Bool
    /// A push filter decides about each document.
    var hasFilter: Bool
    /// Changes are pulled from the same peer as well.
    var pulls: Bool
    var limits: ReplicationLimits
}

/// An input of the push machine.
enum PushEvent: Sendable {
    case storeChanged(newest: SequenceNumber)
    /// Conflicts were decided: the results may have to be pushed, even before the store reports them.
    case decided([DocumentID])
    /// Another version of the filter is in force.
    case filterChanged
    /// Documents that the peer refused are to be offered again.
    case retryRefused
    /// Answers ``PushAction/read(_:limit:isBacklog:)``.
    case read(FeedPage)
    /// Answers ``PushAction/readAgain(_:)``: the first of the requested documents, as many as were processed, and those of them that still exist.
    case readAgain([DocumentID], [OutgoingDocument])
    /// Answers ``PushAction/readKeptBack(after:)``.
    case keptBackRead(KeptBackPage)
    /// Answers ``PushAction/judge(_:)``: one verdict for each, and the version of the filter that was asked.
    case judged([FilterVerdict], by: String = "")
    /// A document about to be sent was rejected by the filter in force, or the filter failed on it. Nothing of it was sent.
    case keptBack(DocumentID, PolicyFailure?, by: String)
    /// Answers ``PushAction/exclude(_:)``: the documents are durably on the kept-back list.
    case excluded([DocumentID])
    /// Answers ``PushAction/offer(_:_:)``, one answer for each.
    case answered(ChangeListID, [OfferAnswer])
    /// The peer refused a whole list of announced changes.
    case changeListRefused(ChangeListID, ReplicationError)
    /// The peer accepts nothing from us: neither this list, nor these documents in flight, nor any others.
    case forbidden(ChangeListID?, [DocumentID], ReplicationError)
    /// Answers ``PushAction/compare(_:)``.
    case compared([(DocumentID, Comparison)])
    /// Answers ``PushAction/move(_:below:)``: whether there is another revision to be offered now.
    case moved(DocumentID, Bool)
    /// Answers ``PushAction/send(_:)``: the peer has taken the document.
    case acknowledged(DocumentID, PeerTaking = .stored)
    /// The peer refused a document that was offered or sent.
    case refused(DocumentID, ReplicationError)
    /// A document about to be sent may no longer be seen by the peer, which was informed that it will not come.
    case withdrawn(DocumentID)
    /// A document about to be sent is too large for the memory here, and the peer was informed that it will not come.
    case unsent(DocumentID, ReplicationError)
    /// Answers ``PushAction/note(_:)``: the store has recorded what the peer acknowledged.
    case noted(AcknowledgedVersions.Batch)
    /// The message of a large document was created; the document's body is no longer needed.
    case messageMade(DocumentID)
    /// Acknowledged versions must be recorded at once: a checkpoint is about to claim them.
    case recordNow
    /// The peer sent these revisions on this connection; they are stored. `listed`: those that are on the list of held and rejected ones instead. `peerHad`:
    /// what the peer was known to have when it offered each; empty if that is unknown. `here`: those that were here already and changed nothing.
    case pulled([(DocumentID, Version)], listed: Set<DocumentID> = [], peerHad: [PeerRevision] = [], here: Set<DocumentID> = [])
    /// The peer's revisions of these documents were here already, and need not be the current ones.
    case alreadyHere([(DocumentID, Version)])
    /// The peer's revisions of these documents were refused because these revisions are current here: it needs them to make progress.
    case refusedInFavourOf([(DocumentID, Version)])
    /// Whether everything that the peer announced is here and nothing of it waits for a decision.
    case pullIsComplete(Bool)
    /// A blob that was missing or damaged here has been repaired.
    case blobMended(BlobDigest)
    case retryIsDue
    /// See ``PushAction/startRefusedTimer(attempts:seconds:)``.
    case refusedAreDue(attempts: Int)
    /// The versions of these documents that the peer refused as being from the future are no longer so: see ``PushAction/awaitTime(_:_:)``.
    case retryTimeReached([DocumentID])
    /// Whether memory is short: while it is, nothing more is to be read.
    case throttled(Bool)
    /// We lost access to these documents at the peer.
    case removalsArrived([Removal])
    /// Answers ``PushAction/watchRemovals(seconds:)``. `isMoving`: in the meantime, something was sent that the peer may be waiting for.
    case removalsWereWatched(isMoving: Bool)
}

/// An output of the push machine.
enum PushAction: Sendable {
    /// `isBacklog`: the documents precede the point at which the peer is informed that it has caught up.
    case read(FeedPosition, limit: Int, isBacklog: Bool)
    /// Each with the revision that the peer is known to hold, which the store may not have recorded yet.
    case readAgain([(DocumentID, Version?)])
    case readKeptBack(after: DocumentID?)
    /// Asks the filter.
    case judge([OutgoingDocument])
    /// Puts documents that the filter kept back on the kept-back list, durably.
    case exclude([KeptBack])
    /// Takes documents off the kept-back list.
    case unlist([DocumentID])
    /// Takes those of the documents off the kept-back list that the peer has in their current revision.
    case unlistSettled([DocumentID])
    case offer(ChangeListID, [OutgoingDocument])
    /// Asks the store how each document relates to the revision that the peer says it holds.
    case compare([(OutgoingDocument, Version)])
    /// Has the store make the document a successor of the peer's tombstone.
    case move(OutgoingDocument, below: Version)
    case send(OutgoingDocument)
    /// The peer requested it, and is informed that it will not come.
    case withdraw(OutgoingDocument)
    case announceCaughtUp
    /// Records what the peer acknowledged.
    case note(AcknowledgedVersions.Batch)
    case startRetryTimer(seconds: Int)
    /// After this time, documents that the peer refused this many times are offered again: it may accept them by then.
    case startRefusedTimer(attempts: Int, seconds: Int)
    /// The peer refused the document because of its clock: it may accept it when the time of its latest version has come.
    case awaitTime(DocumentID, UInt64)
    case report(DocumentEvent)
    /// The peer has, or is being sent, this revision of ours: it need not be fetched when the peer offers it. A peer's changes may overtake its
    /// acknowledgement, and the revision may be pruned here by then.
    case notifyPull(DocumentID, Version)
    /// No outstanding answer from the peer can change what is known about these documents.
    case applyRemovals([Removal])
    /// Removals wait for the peer's answers: check their progress after this time.
    case watchRemovals(seconds: Int)
    /// The connection has no purpose left.
    case fail(ReplicationError)
}

extension DocumentEvent {
    init(pushed document: OutgoingDocument, _ collection: CollectionName, _ error: ReplicationError?) {
        self.init(id: document.id, collection: collection, direction: .push, isDeleted: document.isDeleted, error: error)
    }
}
