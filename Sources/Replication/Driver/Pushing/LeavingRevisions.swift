import Documents
import DocumentStore
import Interfaces

/// Revisions that the peer wants, and that are looked at once more before they go: between the reading of a feed and the peer's wish for a row any
/// time may pass. A channel may be lost by then, where the peer is bound to channels, and another push filter be in force. In order, many at a
/// time.
struct LeavingRevisions {
    /// What the store says of one.
    enum Look: Sendable {
        case open
        case hidden
        /// It changed since: the newer revision comes in its turn.
        case changed
        /// It passed a filter that is not in force any more. With the body that it is stored with.
        case doubted(PolicyDocument)
    }

    private var waiting: [OutgoingDocument] = []
    private var isLooking = false

    mutating func append(_ document: OutgoingDocument) { waiting.append(document) }

    /// What is to be looked at now; nil while that is done for others.
    mutating func next() -> [OutgoingDocument]? {
        guard !isLooking, !waiting.isEmpty else { return nil }
        defer { waiting = [] }
        isLooking = true
        return waiting
    }

    mutating func looked() { isLooking = false }
}
