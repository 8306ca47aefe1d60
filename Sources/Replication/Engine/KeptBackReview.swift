import Documents

/// The review of the kept-back list for a peer: at the start, and whenever another version of the filter comes into force.
struct KeptBackReview {
    private enum State {
        case nothing
        case due(after: DocumentID?)
        case reading
        /// The filter changed again while a page was being read: start over.
        case readingStale
    }

    private var state: State

    init(isDue: Bool) { state = isDue ? .due(after: nil) : .nothing }

    var isOver: Bool { if case .nothing = state { true } else { false } }

    mutating func restart() {
        switch state {
        case .reading, .readingStale: state = .readingStale
        case .nothing, .due: state = .due(after: nil)
        }
    }

    /// Where to continue reading; nil if no review is due.
    mutating func begin() -> DocumentID?? {
        guard case .due(let after) = state else { return nil }
        state = .reading
        return .some(after)
    }

    /// A page was read.
    mutating func accept(next: DocumentID?) {
        if case .readingStale = state {
            state = .due(after: nil)
        } else {
            state = next.map { .due(after: $0) } ?? .nothing
        }
    }
}
