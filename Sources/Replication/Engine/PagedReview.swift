import Documents

/// A review of a stored list, page by page: at the start, and again when another version of its policy comes into force.
struct PagedReview {
    /// What to read now.
    enum Begin {
        case notDue
        /// The page after this document; nil for the first page.
        case page(after: DocumentID?)
    }

    private enum State {
        case nothing
        case due(after: DocumentID?)
        case reading
        /// The policy changed again while a page was being read: start over.
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

    /// Begins the next page, if a review is due and no page is being read.
    mutating func begin() -> Begin {
        guard case .due(let after) = state else { return .notDue }
        state = .reading
        return .page(after: after)
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
