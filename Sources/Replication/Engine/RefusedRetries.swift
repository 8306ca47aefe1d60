import Documents

/// What the peer refused on this connection, and when it is offered again, because something may have changed there: each document after
/// a minute first, then after twice the time before, up to an hour. Those that were refused as often as each other share a timer, so
/// there are a handful of timers at most, and a document that was refused just now does not hurry those that have been for long.
struct RefusedRetries {
    private struct Refusal {
        var version: Version
        /// How often this version was offered again by itself, up to the longest delay.
        var attempts = 0
    }

    private let delay: RetryDelay
    private let limit: Int
    private var refusals: [DocumentID: Refusal] = [:]
    /// The documents that wait, by attempts. A timer runs for each of these that is not empty.
    private var waiting: [Int: Set<DocumentID>] = [:]

    init(_ limits: ReplicationLimits) {
        delay = RetryDelay(first: limits.refusedRetrySeconds, longest: EngineBounds.longestRefusedRetrySeconds)
        limit = limits.refusedDocuments
    }

    var isEmpty: Bool { refusals.isEmpty }

    /// The peer refused it. Beyond the limit only what is known already is.
    mutating func note(_ document: OutgoingDocument) {
        if let known = refusals[document.id] {
            if known.version != document.version { refusals[document.id] = Refusal(version: document.version) }
        } else if refusals.count < limit {
            refusals[document.id] = Refusal(version: document.version)
        }
    }

    /// It is to be offered again.
    ///
    /// - Returns: the timer to be started, unless one runs that it waits for as well.
    mutating func wait(_ id: DocumentID) -> (attempts: Int, seconds: Int)? {
        guard delay.first > 0, let attempts = refusals[id]?.attempts else { return nil }
        let isRunning = waiting[attempts] != nil
        waiting[attempts, default: []].insert(id)
        return isRunning ? nil : (attempts, delay.seconds(after: attempts))
    }

    /// Those that waited for this timer. What was changed and refused once more meanwhile waits for another one.
    mutating func take(_ attempts: Int) -> [DocumentID] {
        let due = waiting.removeValue(forKey: attempts)?.filter { refusals[$0]?.attempts == attempts }.sorted() ?? []
        guard delay.seconds(after: attempts) < delay.longest else { return due }
        for id in due { refusals[id]?.attempts += 1 }
        return due
    }

    /// It is not what was refused any more.
    ///
    /// - Returns: the document, if it was refused.
    mutating func remove(_ id: DocumentID) -> DocumentID? { refusals.removeValue(forKey: id).map { _ in id } }
}
