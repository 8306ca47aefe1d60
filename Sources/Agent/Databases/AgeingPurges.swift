import AgentConfiguration
import Documents
import DocumentStore
import Replication

/// Purges documents and tombstones that are past their age (`ttl`, `tombstone_age`). Documents that a replicator has not pushed yet, holds, or whose
/// push was refused stay until they have been pushed: no measurement is lost because of its age.
enum Ageing {
    /// `ageing_interval`: seconds between two checks; if documents live for less than a hundred times that, checks are more frequent.
    private static let interval = 60
    /// `purges_per_commit`: other writes can go on in between.
    private static let page = 200

    /// How often documents with these ages have to be checked.
    static func interval(_ databases: [DatabaseSettings]) -> Int {
        let shortest = databases.flatMap { $0.timeToLive.map(\.seconds) + [$0.tombstoneAge].compactMap(\.self) }.min() ?? .max
        return max(1, min(interval, shortest / 10))
    }

    /// What to purge from one collection.
    struct Rule: Sendable {
        var database: Database
        var collection: Collection
        /// Seconds; nil for never.
        var documents: Int64?
        var tombstones: Int64?

        /// What was examined under one rule need not be examined again under another with the same key.
        var key: String { "\(database.privateUUID) \(collection.id) \(documents != nil) \(tombstones != nil)" }
    }

    /// - Parameter examined: the sequence up to which nothing is left to be judged.
    /// - Returns: how many were purged, and the `examined` for the next call.
    static func run(
        _ rule: Rule, replicators: [Replicator], examined: SequenceNumber, now: Int64
    ) async throws -> (purged: Int, examined: SequenceNumber) {
        let (documents, tombstones) = try await rule.database.sequences(
            olderThan: rule.documents, tombstones: rule.tombstones, in: rule.collection, now: now)
        let end = max(documents, tombstones)
        // Documents younger than one of the ages are examined again later.
        var done = min(rule.documents == nil ? .max : documents, rule.tombstones == nil ? .max : tombstones)
        guard end > examined else { return (0, examined) }
        let pushing = replicators.filter { $0.configuration.database === rule.database && $0.configuration.type.pushes }
        var kept: Set<DocumentID>?
        var since = examined
        var count = 0
        while since < end {
            let start = since
            let rows = try await rule.database.read { try $0.changes(rule.collection, since: start, limit: page, includeBodies: false) }
            guard let last = rows.last else { break }
            since = last.sequence
            var due: [ChangeRow] = []
            for row in rows where row.sequence <= (row.isDeleted ? tombstones : documents) {
                if kept == nil { kept = try await undelivered(pushing, rule.collection.name) }
                var waits = row.hasConflict || kept?.contains(row.id) == true
                for replicator in pushing where !waits { waits = try await replicator.isPending(row.id, in: rule.collection.name) }
                if waits { done = min(done, row.sequence - 1) } else { due.append(row) }
            }
            if !due.isEmpty { count += try await rule.database.purge(due, in: rule.collection) }
        }
        return (count, max(examined, done))
    }

    /// Documents that replicators hold, or whose push a peer refused.
    private static func undelivered(_ replicators: [Replicator], _ collection: CollectionName) async throws -> Set<DocumentID> {
        var ids: Set<DocumentID> = []
        for replicator in replicators {
            for (name, exclusion) in try await replicator.heldDocuments() where name == collection { ids.insert(exclusion.id) }
            for refusal in try await replicator.refusedDocuments() where refusal.collection == collection { ids.insert(refusal.id) }
        }
        return ids
    }
}

extension Agent {
    /// Periodically purges what has become too old, until the task is cancelled.
    nonisolated func watchAges() async {
        async let _ = markWaiting()
        var examined: [String: SequenceNumber] = [:]
        while !Task.isCancelled {
            try? await environment.time.sleep(seconds: Ageing.interval(settings.databases))
            guard !Task.isCancelled else { return }
            for wanted in settings.databases {
                guard let database = database(wanted.name.value), !wanted.timeToLive.isEmpty || wanted.tombstoneAge != nil else { continue }
                for collection in database.collections {
                    let documents = wanted.timeToLive.first { CollectionName($0.collection.value) == collection.name }?.seconds
                    guard documents != nil || wanted.tombstoneAge != nil else { continue }
                    let rule = Ageing.Rule(
                        database: database, collection: collection, documents: documents.map { Int64($0) }, tombstones: wanted.tombstoneAge.map { Int64($0) })
                    do {
                        let (count, done) = try await Ageing.run(
                            rule, replicators: replicators, examined: examined[rule.key] ?? 0, now: environment.time.wallSeconds())
                        examined[rule.key] = done
                        guard count > 0 else { continue }
                        log.info("documents have become too old and are purged", metadata: [
                            "database": "\(database.name)", "collection": "\(collection.name)", "documents": "\(count)",
                        ])
                        audit.note(.init(
                            who: "agent", from: "", action: "purge of old documents", target: "\(database.name).\(collection.name)", outcome: "\(count) purged"))
                    } catch StoreError.closed {
                    } catch { log.error("old documents of database \(database.name) cannot be purged: \(error)") }
                }
            }
        }
    }
}
