import Documents
import DocumentStore

extension Agent {
    /// `expiry_interval`: seconds between two looks at what has expired.
    private static let expiryInterval = 5

    /// Purges documents whose `_exp` has come, until the task is cancelled. Other than `ttl`, it also purges what was not pushed: who saved the
    /// document said that it is of no use later.
    nonisolated func watchExpiries() async {
        while !Task.isCancelled {
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
            }
            try? await environment.time.sleep(seconds: Self.expiryInterval)
        }
    }
}
