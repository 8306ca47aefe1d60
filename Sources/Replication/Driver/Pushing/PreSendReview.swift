import Documents
import DocumentStore
import Interfaces

/// Revisions that the peer wants, checked once more before they are sent: any amount of time may pass between reading the feed and the peer's
/// request. By then, a peer limited to channels may have lost one, another push filter may be in force, or the peer may have a newer revision, sent by
/// itself or received by another way. Checked in order, many at a time.
struct PreSendReview {
    /// The store's answer for one revision.
    enum Check: Sendable {
        /// It may be sent.
        case sendable
        case hidden
        /// It has changed since: the newer revision is pushed in its turn.
        case changed
        /// It has changed since, so often that a peer which has the newer revision would not recognise this one.
        case farBehind
        /// It passed a filter that is no longer in force. Includes the stored body.
        case doubted(PolicyDocument)
    }

    private var waiting: [OutgoingDocument] = []
    private var isChecking = false
    private static let rememberedDrops = 1_000
    /// Documents of which a revision that was far behind was dropped last.
    private var dropped: Set<DocumentID> = []

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// The revisions to check now; nil while others are being checked.
    mutating func next() -> [OutgoingDocument]? {
        guard !isChecking, !waiting.isEmpty else { return nil }
        defer { waiting = [] }
        isChecking = true
        return waiting
    }

    mutating func checked() { isChecking = false }

    /// Drops a revision that is far behind, but not twice in a row, otherwise the peer would get nothing of a document that never stands still.
    ///
    /// - Returns: whether it is dropped.
    mutating func dropOnce(_ id: DocumentID) -> Bool {
        guard dropped.remove(id) == nil, dropped.count < Self.rememberedDrops else { return false }
        dropped.insert(id)
        return true
    }
}
