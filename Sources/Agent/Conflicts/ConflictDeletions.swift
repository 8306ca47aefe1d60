import Documents
import DocumentStore
import Logging
import Replication

// A resolver that deletes a document of which both sides have a live revision: nobody deleted it, so whoever misses it has to find out who did.

extension ConflictEvent {
    /// Whoever decides by hand knows what they have done.
    func logDeletion(to logger: Logger) {
        guard let deleted, plugin != ConflictDecider.byHand else { return }
        // Lines of one plugin and database are folded by the log.
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
    /// A document that is deleted, with the decision that deleted it if both sides had it; as it was where that is not known.
    nonisolated func deletedByResolver(
        _ statement: WhereaboutsStatement, _ row: ChangeRow, _ collection: Collection, _ database: Database
    ) async throws -> WhereaboutsStatement {
        guard row.isDeleted else { return statement }
        let entries = try await database.read { try $0.conflictHistory(collection, id: row.id, limit: 1, includeBodies: false) }
        guard let entry = entries.first, entry.decision == .delete, entry.result.revision == row.revision, !entry.local.isDeleted, !entry.remote.isDeleted
        else { return statement }
        let time = Timestamp.format(entry.at)
        let isByHand = entry.plugin == ConflictDecider.byHand
        let who = isByHand ? "somebody decided a conflict so by hand" : "the resolver \(entry.plugin) (version \(entry.version)) decided a conflict so"
        var copy = statement
        copy.text += ": \(who) at \(time), although both sides had it, here \(entry.local.revision), there \(entry.remote.revision)"
        copy.remedy = "nightjar conflicts show \(entry.number) --db \(database.name) has both documents; to have one back, save it again"
            + (isByHand ? "" : ", and mend the resolver if it was a mistake")
        return copy.with([
            "decided_at": .string(time), "decided_by": .string(entry.plugin), "decided_by_version": .string(entry.version),
            "local_rev": .string(entry.local.revision.text), "remote_rev": .string(entry.remote.revision.text), "number": JSONOutput.number(entry.number),
        ])
    }
}
