import Documents
import DocumentStore
import Interfaces

/// Which side asked for the documents.
enum PushStyle: Sendable {
    /// We push: documents are proposed, and the peer answers with a status each.
    case propose
    /// The peer pulls: changes are announced, and the peer answers with what it wants.
    case announce
}

/// What a push does, and within which bounds.
struct PushSettings: Sendable {
    var collection: CollectionName
    var style: PushStyle
    var isContinuous: Bool
    /// A push filter is asked about each document.
    var hasFilter: Bool
    /// The same peer's changes are pulled as well.
    var pulls: Bool
    var limits: ReplicationLimits
}

/// Something that happened to a push.
enum PushEvent: Sendable {
    case storeChanged(newest: SequenceNumber)
    /// Conflicts were decided: what came of them may be to push, even before the store tells of it.
    case decided([DocumentID])
    /// Another version of the filter is in force.
    case filterChanged
    /// What the peer refused is to be offered again.
    case retryRefused
    /// Answers ``PushAction/read(_:limit:isBacklog:)``.
    case read(FeedPage)
    /// Answers ``PushAction/readAgain(_:)``: the first of those that were asked for, as many as were looked at, and what is still there of them.
    case readAgain([DocumentID], [OutgoingDocument])
    /// Answers ``PushAction/readKeptBack(after:)``.
    case keptBackRead(KeptBackPage)
    /// Answers ``PushAction/judge(_:)``: one verdict for each, and the version of the filter that was asked.
    case judged([FilterVerdict], by: String = "")
    /// What was to be sent does not pass the filter that is in force by now, or that fails on it. Nothing of it was sent.
    case keptBack(DocumentID, PolicyFailure?, by: String)
    /// What the filter kept back is durably on its list.
    case listed([DocumentID])
    /// Answers ``PushAction/offer(_:_:)``, one answer for each.
    case answered(ListID, [OfferAnswer])
    /// The peer refused a whole list of announced changes.
    case listRefused(ListID, ReplicationError)
    /// The peer takes nothing of us: neither this list, nor these that were on their way, nor others.
    case forbidden(ListID?, [DocumentID], ReplicationError)
    /// Answers ``PushAction/compare(_:)``.
    case compared([(DocumentID, Comparison)])
    case acknowledged(DocumentID)
    /// The same of what the peer has on a list, and not in its database.
    case keptThere(DocumentID, KeptThere.Reason)
    case refused(DocumentID, ReplicationError)
    /// What was to be sent is not for the peer any more; it was told that nothing comes.
    case withdrawn(DocumentID)
    /// The store has noted what the peer acknowledged.
    case noted(AcknowledgedVersions.Batch)
    /// What was acknowledged is to be noted now: a checkpoint is about to claim it.
    case noteNow
    /// The peer sent these revisions on this connection; they are stored, held or rejected.
    case pulled([(DocumentID, Version)])
    /// The peer was refused its own revisions of these documents, because these are here: it has to have them to go on.
    case met([(DocumentID, Version)])
    /// Whether everything that the peer announced is here, and nothing of it waits for a decision.
    case pullIsComplete(Bool)
    /// A blob that was gone or damaged here is right again.
    case blobMended(BlobDigest)
    case retryIsDue
    /// See ``PushAction/startRefusedTimer(attempts:seconds:)``.
    case refusedAreDue(attempts: Int)
    /// Versions of these documents that the peer refused as of a time to come are that no more: see ``PushAction/awaitTime(_:_:)``.
    case timeHasCome([DocumentID])
    /// Memory is short: nothing more is to be read until it is not.
    case throttled(Bool)
    /// The peer does not let us have these documents any more.
    case takenAway([Removal])
    /// Answers ``PushAction/watchRemovals(seconds:)``. `isMoving`: meanwhile something went to the peer that may be what it waits for.
    case removalsWereWatched(isMoving: Bool)
}

/// Something to do for a push.
enum PushAction: Sendable {
    /// `isBacklog`: what was there before the peer was told that it has caught up.
    case read(FeedPosition, limit: Int, isBacklog: Bool)
    /// Each with what the peer is known to hold, where the store may not know it yet.
    case readAgain([(DocumentID, Version?)])
    case readKeptBack(after: DocumentID?)
    case judge([OutgoingDocument])
    /// Puts what the filter kept back on its list, durably.
    case list([KeptBack])
    /// Takes documents off that list.
    case unlist([DocumentID])
    /// Those of them that the peer has as they are here are taken off the list.
    case unlistSettled([DocumentID])
    case offer(ListID, [OutgoingDocument])
    case compare([(OutgoingDocument, Version)])
    case send(OutgoingDocument)
    /// The peer wants it, and is told that it does not come.
    case withdraw(OutgoingDocument)
    case announceCaughtUp
    case note(AcknowledgedVersions.Batch)
    case startRetryTimer(seconds: Int)
    /// After this time what the peer refused so often is offered again: it may take it by then.
    case startRefusedTimer(attempts: Int, seconds: Int)
    /// The peer refused the document because of its clock: it may take it when its latest version's time is there.
    case awaitTime(DocumentID, UInt64)
    case report(DocumentEvent)
    /// The peer has this revision of ours, or is being sent it: it need not be fetched when the peer offers it. A peer's changes may
    /// overtake its acknowledgement, and by then the revision may have been pruned here.
    case tellPull(DocumentID, Version)
    /// No answer of the peer is waited for that would say more of these documents.
    case takeAway([Removal])
    /// Removals wait for answers of the peer: to be looked at after this time.
    case watchRemovals(seconds: Int)
    /// There is nothing left that this connection is for.
    case fail(ReplicationError)
}

extension DocumentEvent {
    init(pushed document: OutgoingDocument, _ collection: CollectionName, _ error: ReplicationError?) {
        self.init(id: document.id, collection: collection, direction: .push, isDeleted: document.isDeleted, error: error)
    }
}
