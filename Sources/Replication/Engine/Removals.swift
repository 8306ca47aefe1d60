import Documents
import Interfaces

/// A document to which the peer revoked our access.
struct Removal: Sendable {
    var id: DocumentID
    var sequence: RemoteSequence?
    var replyTo: AnswerHandle?
}

/// What happened to a document that the peer took away.
struct RemovalOutcome: Sendable {
    enum End: Sendable {
        case purged
        /// It did not exist here.
        case absent
        /// The replicator does not purge automatically.
        case kept
        /// An edit made here has not reached the peer, and would be lost.
        case edited
        /// The pull filter wants it to stay.
        case rejected(by: String)
        /// The pull filter could not decide; the document stays.
        case failed(PolicyFailure)
    }

    var removal: Removal
    var end: End

    /// The event for the replicator's listeners. If the pull filter keeps the document, that is reported as a refused removal.
    func event(_ collection: CollectionName) -> DocumentEvent? {
        var event = DocumentEvent(id: removal.id, collection: collection, direction: .pull)
        switch end {
        case .absent: return nil
        case .purged, .kept: event.isAccessRemoved = true
        case .edited:
            event.error = .conflict("the remote took access away, and the document stays: an edit made here has not reached it")
        case .rejected(let plugin):
            // Not refused by the peer, but by us.
            event.error = .forbidden("the removal was rejected by the pull filter \(plugin): the document stays, without access")
            event.error?.specificRemedy = "nothing, if it is to stay; otherwise let \(plugin) pass what has ctx.flags.access_removed, and remove this document: nightjar doc purge"
        case .failed(let failure): event.error = ReplicationError(failure)
        }
        return event
    }
}
