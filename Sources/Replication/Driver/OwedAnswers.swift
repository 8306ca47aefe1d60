import Environment
import Interfaces

/// What the peer owes, and since when nothing of it has come: answers to messages, and what its feed has and was asked for. Only where we opened the
/// connection: what a peer of a listener asked for is its own to wait for. A database that is asked in requests has ``OwedRequests``.
final class OwedAnswers {
    /// `owed_progress_bytes`: so many bytes are a long document or blob on its way. Less may be a peer that only shows that it lives.
    static let progressBytes = 16 << 10

    /// One kind of debt.
    private struct Debt {
        /// Since when nothing of it came (seconds since 1970); nil while there is none.
        var since: Int64?
        /// Something of it came since the last look.
        var hasCome = false
        /// Bytes that had moved when something came.
        private var mark = 0

        mutating func look(isOwed: Bool, bytes: Int, _ time: any TimeSource) {
            guard isOwed else {
                (since, hasCome) = (nil, false)
                return
            }
            guard since == nil || hasCome || bytes - mark >= OwedAnswers.progressBytes else { return }
            (since, hasCome, mark) = (time.wallSeconds(), false, bytes)
        }
    }

    private unowned let session: SessionDriver
    private var replies = Debt()
    private var pulls = Debt()
    private var awaitedReplies = 0
    private var sentBytes = 0

    init(_ session: SessionDriver) { self.session = session }

    /// Since when nothing of something that is owed came (seconds since 1970); nil while nothing is owed.
    var since: Int64? { [replies.since, pulls.since].compactMap(\.self).min() }

    /// An answer came.
    func answered() { replies.hasCome = true }
    /// Something came of what is pulled.
    func pulled() { pulls.hasCome = true }
    func sent(_ bytes: Int) { sentBytes += bytes }

    /// At the end of each turn.
    func look() {
        guard !session.isPassive, session.couch == nil else { return }
        // What we do not read may have come.
        let isRead = session.intake.isEmpty && !session.accounts.readingIsPaused && !session.dialect.shouldPauseReading
        let (awaited, taken, time) = (session.dialect.awaitedReplies, session.dialect.takenBytes, session.environment.time)
        if awaited < awaitedReplies { replies.hasCome = true }
        awaitedReplies = awaited
        // What waits for its answer may still be on its way there.
        replies.look(isOwed: isRead && awaited > 0, bytes: taken + sentBytes, time)
        pulls.look(isOwed: isRead && session.overview.owingPulls > 0, bytes: taken, time)
    }
}
