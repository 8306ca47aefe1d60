import Documents

/// Documents that the peer refused on this connection, and when they are offered again in case something changed there: each first after a minute,
/// then after twice the previous time, up to an hour. Documents with the same number of refusals share a timer, so there are only a handful of
/// timers, and a newly refused document does not speed up those that were refused long ago.
struct RefusedRetries {
    private struct Refusal {
        var version: Version
        /// How often this version was offered again by timer; not counted further once the longest delay is reached.
        var attempts = 0
    }

    private let delay: RetryDelay
    private let limit: Int
    private var refusals: [DocumentID: Refusal] = [:]
    /// The waiting documents, by number of attempts. A timer runs for each set that is not empty.
    private var waiting: [Int: Set<DocumentID>] = [:]

    init(_ limits: ReplicationLimits) {
        delay = RetryDelay(first: limits.refusedRetrySeconds, longest: EngineBounds.longestRefusedRetrySeconds)
        limit = limits.refusedDocuments
    }

    var isEmpty: Bool { refusals.isEmpty }

    /// The peer refused the document. Beyond the limit, only documents that are already known are updated.
    mutating func note(_ document: OutgoingDocument) {
        if let known = refusals[document.id] {
            if known.version != document.version { refusals[document.id] = Refusal(version: document.version) }
        } else if refusals.count < limit {
            refusals[document.id] = Refusal(version: document.version)
        }
    }

    /// Schedules another offer.
    ///
    /// - Returns: the timer to start; nil if one that covers it is already running.
    mutating func wait(_ id: DocumentID) -> (attempts: Int, seconds: Int)? {
        guard delay.first > 0, let attempts = refusals[id]?.attempts else { return nil }
        let isRunning = waiting[attempts] != nil
        waiting[attempts, default: []].insert(id)
        return isRunning ? nil : (attempts, delay.seconds(after: attempts))
    }

    /// Takes the documents that waited for this timer. A document that changed and was refused again in the meantime waits for another one.
    mutating func take(_ attempts: Int) -> [DocumentID] {
        let due = waiting.removeValue(forKey: attempts)?.filter { refusals[$0]?.attempts == attempts }.sorted() ?? []
        guard delay.seconds(after: attempts) < delay.longest else { return due }
        for id in due { refusals[id]?.attempts += 1 }
        return due
    }

    /// The refused version is no longer current.
    ///
    /// - Returns: the document, if it was refused.
    mutating func remove(_ id: DocumentID) -> DocumentID? { refusals.removeValue(forKey: id).map { _ in id } }
}
