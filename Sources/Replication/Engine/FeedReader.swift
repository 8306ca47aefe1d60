import Documents
import DocumentStore
import Interfaces

/// How far a change feed was read, and what prevents further reading.
struct FeedReader {
    /// A document about which the filter could not decide, and which the peer's checkpoint must not pass.
    struct Stall: Sendable, Equatable {
        var id: DocumentID
        var version: Version
        var failure: PolicyFailure
    }

    enum Reading {
        case nothing
        /// The feed itself. `isStale`: the feed stalled after the read began, and the result lies behind a document that is not dealt with.
        case feed(isStale: Bool)
        /// Documents that are due again.
        case again([DocumentID])
        /// The kept-back list.
        case keptBack
    }

    private(set) var position: FeedPosition
    var reading = Reading.nothing
    private(set) var stall: Stall?
    /// The newest sequence that the store has reported.
    private(set) var newest: SequenceNumber = 0
    private var reachedEnd = false
    /// The next document has not been assigned to channels yet: it is read once the store reports a change.
    private var isBlocked = false
    /// Something changed while the feed was stalled: possibly the document at which it stalled.
    private var mayCheckAgain = false

    init(from position: FeedPosition) { self.position = position }

    var isReading: Bool { if case .nothing = reading { false } else { true } }

    /// Whether there is nothing to read at the moment.
    var isAtEnd: Bool { reachedEnd || isBlocked || stall != nil && !mayCheckAgain }

    mutating func storeChanged(_ sequence: SequenceNumber) {
        newest = max(newest, sequence)
        isBlocked = false
        mayCheckAgain = true
        // Access to channels may change without a change of a document.
        if newest > position.sequence || position.channels != nil { reachedEnd = false }
    }

    mutating func checkAgain() { reachedEnd = false }

    /// - Returns: false for a page to be ignored, because the feed is stalled before it.
    mutating func accept(_ page: FeedPage) -> Bool {
        let read = reading
        reading = .nothing
        if case .feed(isStale: true) = read { return false }
        // A change committed after the read was reported in the meantime.
        let isCurrent = newest <= max(page.newest, page.next.sequence)
        // The document at which the feed stalled is gone.
        if page.documents.isEmpty, page.next != position { stall = nil }
        position = page.next
        mayCheckAgain = !isCurrent
        isBlocked = page.isBlocked && isCurrent
        reachedEnd = page.isEnd && isCurrent
        return true
    }

    /// Stalls the feed before a document. False if it was already stalled there.
    mutating func stall(at stall: Stall, _ position: FeedPosition) -> Bool {
        let isNew = stall != self.stall
        self.stall = stall
        self.position = position
        reachedEnd = false
        if case .feed = reading { reading = .feed(isStale: true) }
        // Look again once: the document may have changed while it was judged.
        if isNew { mayCheckAgain = true }
        return isNew
    }

    /// Ends the stall: its document has changed, or the filter has.
    mutating func endStall() { stall = nil }
}
