import Documents
import DocumentStore
import Logging
import Replication

// A resolver that deletes a document although both sides have a live revision: no user deleted it, so somebody who misses it needs to find out what
// did.

extension ConflictEvent {
    /// People who decide by hand know what they did.
    func logDeletion(to logger: Logger) {
        guard let deleted, plugin != ConflictDecider.byHand else { return }
        // The log folds repeated lines about one plugin and database.
        var metadata: Logger.Metadata = ["plugin": "\(plugin)", "version": "\(version)", "database": "\(database)"]
        switch place.kind {
        case .replicator: metadata["replicator"] = "\(place.name)"
        case .listener: metadata["listener"] = "\(place.name)"
        case .save: break
        }
        let number: Int64? = if case .decided(_, _, let number) = kind { number } else { nil }
        let history = number.map { "; nightjar conflicts show \($0) --db \(database) has both documents" } ?? ""
        logger.warning(
            "the resolver \(plugin) deleted document \(id) of \(collection), which both sides had: here \(deleted.local), there \(deleted.remote)\(history)",
            metadata: metadata)
    }
}

extension Agent {
    /// A deleted document together with the decision that deleted it, if both sides had a live revision; unchanged if that is not known.
    nonisolated func deletedByResolver(
        _ statement: WhereaboutsStatement, _ row: ChangeRow, _ collection: Collection, _ database: Database
    ) async throws -> WhereaboutsStatement {
        guard row.isDeleted else { return statement }
        let entries = try await database.read { try $0.conflictHistory(collection, id: row.id, limit: 1, includeBodies: false) }
        guard let entry = entries.first, entry.decision == .delete, entry.result.revision == row.revision, !entry.local.isDeleted, !entry.remote.isDeleted
        else { return statement }
        let time = Timestamp.format(entry.at)
        let isByHand = entry.plugin == ConflictDecider.byHand
        let who = isByHand ? "that is how somebody decided a conflict by hand" : "the resolver \(entry.plugin) (version \(entry.version)) decided a conflict that way"
        var copy = statement
        copy.text += ": \(who) at \(time), although both sides had it, here \(entry.local.revision), there \(entry.remote.revision)"
        copy.remedy = "nightjar conflicts show \(entry.number) --db \(database.name) has both documents; to have one back, save it again"
            + (isByHand ? "" : ", and fix the resolver if it was a mistake")
        return copy.with([
            "decided_at": .string(time), "decided_by": .string(entry.plugin), "decided_by_version": .string(entry.version),
            "local_rev": .string(entry.local.revision.text), "remote_rev": .string(entry.remote.revision.text), "number": JSONOutput.number(entry.number),
        ])
    }
}
