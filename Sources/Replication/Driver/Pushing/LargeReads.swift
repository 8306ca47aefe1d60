import DocumentStore
import Environment
import Interfaces

/// A read whose documents are on their way to the peer.
protocol ReadDocuments: Sendable {
    var documents: [OutgoingDocument] { get set }
}

extension FeedPage: ReadDocuments {}
extension KeptBackPage: ReadDocuments {}

/// Documents that were read again.
struct DocumentsReadAgain: ReadDocuments {
    var documents: [OutgoingDocument]
    /// How many of the wanted ones were processed.
    var count: Int
}

/// What was read, with the memory that is reserved for it until it is accounted for.
struct Reserved<Read: ReadDocuments>: ReadDocuments {
    var read: Read
    var reservation: MemoryBudget.Reservation?

    var documents: [OutgoingDocument] {
        get { read.documents }
        set { read.documents = newValue }
    }
}

/// Reads documents that this side pushes of its own accord. A large body is in memory as it was read and as the message, until the peer has taken it. No
/// peer owes that, so nobody can be evicted for it: if all replicators had one at the same time, it would be many times `limits.memory`. So each needs
/// a claim in the budget, for which replicators take turns, and is only then read.
///
/// What a listener's peers ask for is owed by them, and is bounded by ``ReplicationLimits/largestGivenBody``.
struct LargeReads {
    let driver: SessionDriver

    /// - Parameters:
    ///   - read: reads documents on the store's threads.
    ///   - then: receives what was read, on the session.
    func read<Found: ReadDocuments>(
        _ source: FeedSource, _ read: @escaping @Sendable (ReadTransaction, FeedSource) throws -> Found, then: @escaping @Sendable (SessionDriver, Found) -> Void
    ) {
        guard !driver.isPassive else { return driver.read { try read($0, source) } then: { then($0, $1) } }
        let most = max(DriverBounds.smallBodyBytes, driver.memory.limit / DriverBounds.largeBodyFraction)
        driver.read {
            var bounded = source
            bounded.largestBody = most
            return try read($0, bounded)
        } then: { driver, found in
            let bytes = found.documents.reduce(0) { $0 + $1.bytesLeftOut }
            guard bytes > 0 else { return then(driver, found) }
            driver.largeReads.claim(2 * bytes) { driver, claim in
                driver.read { try read($0, source) } then: { driver, found in
                    var found = found
                    for index in found.documents.indices where found.documents[index].body.count > most { found.documents[index].claim = claim }
                    driver.accounts.areClaimed(2 * bytes, claim)
                    then(driver, found)
                }
            }
        }
    }

    /// Claims memory for bodies and their messages, however long it takes until there is some.
    private func claim(_ bytes: Int, then: @escaping @Sendable (SessionDriver, MemoryBudget.Claim) -> Void) {
        driver.attempt { [weak claimant = driver.claimant] () async throws -> MemoryBudget.Claim in
            while true {
                // Without it, the session is over.
                guard let claim = claimant?.claim() else { throw CancellationError() }
                do {
                    try await claim.grow(to: bytes)
                    claim.complete(at: bytes)
                    return claim
                } catch MemoryBudget.ClaimRefusal.noMemory {
                    // Its place in line is kept.
                    continue
                }
            }
        } then: { driver, claim in
            let counters = driver.counters
            claim.keep(atLeast: max(DriverBounds.slowestLargeBytes, bytes / 2 / DriverBounds.slowestLargeFraction)) { Int(clamping: counters.snapshot.bytesSent) }
            claim.whenRevoked { [weak owner = driver.owner] in owner?.later { $0.largeReads.giveUp() } }
            then(driver, claim)
        }
    }

    /// Others wait for the memory, and the peer hardly takes anything.
    private func giveUp() {
        var error = ReplicationError(
            domain: .litecore, code: 13,
            message: "this agent's limits.memory (\(driver.memory.limit) bytes) was needed for other large documents, and the peer takes this one too slowly")
        error.specificRemedy = "raise limits: { memory } of this agent, or see what slows down the peer or the way to it"
        driver.finish(error: error, closeCode: CloseCode.comeBack, reason: error.message)
    }
}
