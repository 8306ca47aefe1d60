import Environment
import Interfaces

/// What the peer owes, and since when it has made no progress with it: answers to messages, and changes and revisions requested from its feed. Only
/// if we opened the connection: a peer of a listener does its own waiting. A dialect may keep this account itself, see
/// ``DialectTraits/accountsForDebts``.
final class OwedAnswers {
    /// One kind of debt.
    private struct Debt {
        /// Since when there has been no progress, in seconds since 1970; nil while there is no debt.
        var since: Int64?
        /// Something arrived since the last check.
        var hasCome = false
        /// Bytes transferred when something last arrived.
        private var mark = 0

        mutating func look(isOwed: Bool, bytes: Int, _ time: any TimeSource) {
            guard isOwed else {
                (since, hasCome) = (nil, false)
                return
            }
            guard since == nil || hasCome || bytes - mark >= DriverBounds.progressBytes else { return }
            (since, hasCome, mark) = (time.wallSeconds(), false, bytes)
        }
    }

    private unowned let driver: SessionDriver
    private var replies = Debt()
    private var pulls = Debt()
    private var awaitedReplies = 0
    private var sentBytes = 0

    init(_ driver: SessionDriver) { self.driver = driver }

    /// Since when something owed has made no progress, in seconds since 1970; nil while nothing is owed.
    var since: Int64? {
        if driver.dialect.traits.accountsForDebts { return driver.dialect.owedSince }
        return [replies.since, pulls.since].compactMap(\.self).min()
    }

    /// An answer came.
    func answered() { replies.hasCome = true }
    /// Something that is being pulled arrived.
    func pulled() { pulls.hasCome = true }
    func sent(_ bytes: Int) { sentBytes += bytes }

    /// Called at the end of each turn.
    func look() {
        guard !driver.isPassive, !driver.dialect.traits.accountsForDebts else { return }
        // While we do not read, the data may already have arrived.
        let isRead = driver.intake.isEmpty && !driver.accounts.readingIsPaused && !driver.dialect.shouldPauseReading
        let (awaited, taken, time) = (driver.dialect.awaitedReplies, driver.dialect.takenBytes, driver.environment.time)
        if awaited < awaitedReplies { replies.hasCome = true }
        awaitedReplies = awaited
        // A message that awaits an answer may still be in flight to the peer.
        replies.look(isOwed: isRead && awaited > 0, bytes: taken + sentBytes, time)
        pulls.look(isOwed: isRead && driver.overview.owingPulls > 0, bytes: taken, time)
    }
}
