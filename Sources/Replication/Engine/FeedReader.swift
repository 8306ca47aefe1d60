import Documents
import DocumentStore
import Interfaces

/// How far a change feed was read, and what keeps it from going on.
struct FeedReader {
    /// The filter could not decide about this document, and the peer's checkpoint must not pass it.
    struct Stall: Sendable, Equatable {
        var id: DocumentID
        var version: Version
        var failure: PolicyFailure
    }

    enum Reading {
        case nothing
        /// The feed itself. `isStale`: it stood still after the read had begun, and what comes lies behind a document that is not dealt with.
        case feed(isStale: Bool)
        /// Documents that are due.
        case again([DocumentID])
        /// What the filter kept back.
        case keptBack
    }

    private(set) var position: FeedPosition
    var reading = Reading.nothing
    private(set) var stall: Stall?
    private var newest: SequenceNumber = 0
    private var reachedEnd = false
    private var isBlocked = false
    /// Something changed while the feed stood still: perhaps the document that it stands at.
    private var mayLookAgain = false

    init(from position: FeedPosition) { self.position = position }

    var isReading: Bool { if case .nothing = reading { false } else { true } }

    /// There is nothing to read now.
    var isAtEnd: Bool { reachedEnd || isBlocked || stall != nil && !mayLookAgain }

    mutating func storeChanged(_ sequence: SequenceNumber) {
        newest = max(newest, sequence)
        isBlocked = false
        mayLookAgain = true
        // Access to channels may change without a document.
        if newest > position.sequence || position.channels != nil { reachedEnd = false }
    }

    mutating func lookAgain() { reachedEnd = false }

    /// - Returns: false for a page that is not to be looked at, because the feed stands still before it.
    mutating func accept(_ page: FeedPage) -> Bool {
        let read = reading
        reading = .nothing
        if case .feed(isStale: true) = read { return false }
        // A change that was committed after the read has been told of meanwhile.
        let isCurrent = newest <= max(page.newest, page.next.sequence)
        // The document that it stood at is gone.
        if page.documents.isEmpty, page.next != position { stall = nil }
        position = page.next
        mayLookAgain = !isCurrent
        isBlocked = page.isBlocked && isCurrent
        reachedEnd = page.isEnd && isCurrent
        return true
    }

    /// Stands still before a document. False when it did so already.
    mutating func stand(at stall: Stall, _ position: FeedPosition) -> Bool {
        let isNew = stall != self.stall
        self.stall = stall
        self.position = position
        reachedEnd = false
        if case .feed = reading { reading = .feed(isStale: true) }
        // Once more at first: it may have changed while it was judged.
        if isNew { mayLookAgain = true }
        return isNew
    }

    /// The document that it stood at is another now, or the filter is.
    mutating func goOn() { stall = nil }
}
