import Documents
import DocumentStore

extension Agent {
    /// `expiry_interval`: seconds between two checks for expired documents.
    private static let expiryInterval = 5
    /// `delta_base_interval`: seconds between two checks for replaced bodies past their age (`rev_max_age_seconds`).
    private static let deltaBaseInterval: Int64 = 60

    /// Purges documents whose `_exp` has passed, until the task is cancelled. Unlike `ttl`, it also purges documents that were not pushed: their
    /// expiry says that they are useless afterwards.
    nonisolated func watchExpiries() async {
        var nextBaseCheck: Int64 = 0
        while !Task.isCancelled {
            let now = environment.time.wallSeconds()
            // The second condition covers a clock that was set back.
            let checksBases = now >= nextBaseCheck || nextBaseCheck - now > Self.deltaBaseInterval
            if checksBases { nextBaseCheck = now + Self.deltaBaseInterval }
            for database in databases {
                do {
                    for (collection, count) in try await database.purgeExpired(now: environment.time.wallSeconds()) {
                        log.info("documents have expired (_exp) and are purged", metadata: [
                            "database": "\(database.name)", "collection": "\(collection)", "documents": "\(count)",
                        ])
                        audit.note(.init(
                            who: "agent", from: "", action: "purge of expired documents", target: "\(database.name).\(collection)", outcome: "\(count) purged"))
                    }
                } catch StoreError.closed {
                } catch { log.error("expired documents of database \(database.name) cannot be purged: \(error)") }
                guard checksBases else { continue }
                do { try await database.dropEndedDeltaBases(now: now) } catch StoreError.closed {
                } catch { log.error("old bases of deltas of database \(database.name) cannot be dropped: \(error)") }
            }
            try? await environment.time.sleep(seconds: Self.expiryInterval)
        }
    }
}
