import AgentConfiguration
import Documents
import DocumentStore

/// When a document expires, or that it has expired.
extension Agent {
    /// A reason for which a document is purged automatically.
    private struct Expiry {
        /// The responsible key, in the document or in the configuration.
        var key: String
        /// Seconds since 1970.
        var time: Int64
        var words: String
    }

    /// When an existing document expires.
    nonisolated func expiring(
        _ statement: WhereaboutsStatement, _ row: ChangeRow, _ collection: Collection, _ database: Database
    ) async throws -> WhereaboutsStatement {
        let (own, changed) = try await database.read { transaction in
            (try transaction.purgeTime(collection, row.id), try transaction.changedBy(row.sequence, in: collection))
        }
        var reasons: [Expiry] = []
        if let own, !row.isDeleted {
            let (isDue, time) = (own <= environment.time.wallSeconds(), Timestamp.format(own))
            let words = isDue ? "its _exp was due at \(time): it is about to be purged, pushed or not" : "because of its _exp it is purged at \(time), pushed or not"
            reasons.append(Expiry(key: "_exp", time: own, words: words))
        }
        if let (key, seconds) = rule(of: collection.name, in: database.name, isDeleted: row.isDeleted) {
            // Changed since the last mark, so it is at most as old as now.
            let time = (changed ?? environment.time.wallSeconds()) + Int64(seconds)
            let words = "\(key) of its \(row.isDeleted ? "database" : "collection") (\(seconds) s after its last change) has it purged \(changed == nil ? "by about" : "at") "
                + "\(Timestamp.format(time)), once every replicator has pushed it"
            reasons.append(Expiry(key: key, time: time, words: words))
        }
        guard let first = reasons.min(by: { $0.time < $1.time }) else { return statement }
        var copy = statement
        copy.text += "; " + reasons.map(\.words).joined(separator: "; ")
        return copy.with(["expires_at": .string(Timestamp.format(first.time)), "expires_by": .string(first.key)])
    }

    /// What removed a missing document, if that is known: the later of a purge by hand and an expiry.
    nonisolated func removalCause(_ id: DocumentID, _ collection: Collection, _ database: Database) async throws -> WhereaboutsStatement? {
        let purged = lastPurge(of: id, in: collection.name, database: database.name)
        guard let expired = try await database.read({ try $0.lastExpiry(collection, id) }) else { return purged }
        let time = Timestamp.format(expired.time)
        // Both times have the same format, so they can be compared as text.
        if let purged, let other = purged.details.first(where: { $0.key == "since" })?.value.asString, other >= time { return purged }
        let key: String
        let remedy: String
        switch expired.rule {
        case .document: (key, remedy) = ("_exp", "to keep it for longer, save it with a later _exp, or with null")
        case .collection: (key, remedy) = ("ttl", "to keep documents of the collection for longer, change ttl of the database")
        case .tombstone: (key, remedy) = ("tombstone_age", "to keep tombstones for longer, change tombstone_age of the database")
        }
        let what = expired.rule == .tombstone ? "it had been deleted, and its tombstone expired" : "it expired"
        return WhereaboutsStatement(
            "expired", "\(what) at \(time) by \(expired.rule == .document ? "its" : "the database's") \(key): it was purged here, and peers keep theirs",
            remedy: remedy + (resetAdvice(database.name).map { "; \($0) brings back what the remote has of it" } ?? "")
        ).with(["since": .string(time), "expired_by": .string(key)])
    }

    /// `ttl` or `tombstone_age`, with its seconds.
    private nonisolated func rule(of collection: CollectionName, in database: String, isDeleted: Bool) -> (key: String, seconds: Int)? {
        guard let settings = settings.databases.first(where: { $0.name.value == database }) else { return nil }
        if isDeleted { return settings.tombstoneAge.map { ("tombstone_age", $0) } }
        return settings.timeToLive.first { CollectionName($0.collection.value) == collection }.map { ("ttl", $0.seconds) }
    }
}
