import Documents
import DocumentStore
import Interfaces

/// Revisions that the peer wants, checked once more before they are sent: any amount of time may pass between reading the feed and the peer's
/// request. By then, a peer limited to channels may have lost one, another push filter may be in force, or the peer may have sent a newer revision
/// itself. Checked in order, many at a time.
struct PreSendReview {
    /// The store's answer for one revision.
    enum Look: Sendable {
        case open
        case hidden
        /// It has changed since: the newer revision is pushed in its turn.
        case changed
        /// It passed a filter that is no longer in force. Includes the stored body.
        case doubted(PolicyDocument)
    }

    private var waiting: [OutgoingDocument] = []
    private var isLooking = false

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// The revisions to check now; nil while others are being checked.
    mutating func next() -> [OutgoingDocument]? {
        guard !isLooking, !waiting.isEmpty else { return nil }
        defer { waiting = [] }
        isLooking = true
        return waiting
    }

    mutating func looked() { isLooking = false }
}
