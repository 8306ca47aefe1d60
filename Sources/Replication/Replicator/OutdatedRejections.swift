import Documents
import DocumentStore

/// Documents that the push filter rejected in a version, or with parameters, no longer in force. The checkpoint may be past them: they are judged
/// again while there is a connection, and are owed until then.
extension Replicator {
    private static let outdatedPage = 200

    /// Passes to `body` those that the checkpoint is past; the others are newer than it, and are counted as such.
    ///
    /// - Parameter body: returns whether to continue.
    nonisolated func forEachOutdated(
        _ wanted: CollectionReplication, _ collection: Collection, through checkpoint: SequenceNumber, includeBodies: Bool,
        _ body: ([ChangeRow]) async throws -> Bool
    ) async throws {
        guard let judge = wanted.judge else { return }
        let key = configuration.remoteKey
        let chosen = wanted.documentIDs.map { Set($0) }
        var after: DocumentID?
        while true {
            let start = after
            let page = try await configuration.database.read { transaction -> (last: DocumentID, rows: [ChangeRow])? in
                guard let remote = try transaction.existingRemote(for: key) else { return nil }
                let noted = try transaction.exclusions(
                    collection, remote: remote, direction: .push, kind: .rejected, unlessBy: judge, after: start, limit: Self.outdatedPage)
                var last: DocumentID?
                var rows: [ChangeRow] = []
                var bytes = 0
                for each in noted where bytes < StoreLimits.maxBodyBytesPerRead {
                    last = each.id
                    if chosen?.contains(each.id) ?? true,
                        let row = try transaction.changes(
                            collection, since: 0, limit: 1, includeBodies: includeBodies, ids: [each.id], remote: remote
                        ).first, row.sequence <= checkpoint, wanted.owes(row)
                    {
                        rows.append(row)
                        bytes += row.body?.count ?? 0
                    }
                }
                return last.map { ($0, rows) }
            }
            guard let page else { return }
            after = page.last
            if !page.rows.isEmpty, try await !body(page.rows) { return }
        }
    }

    /// The row of a document rejected in this way, wherever the checkpoint is.
    nonisolated func outdated(_ id: DocumentID, _ wanted: CollectionReplication, _ collection: Collection) async throws -> ChangeRow? {
        let key = configuration.remoteKey
        return try await configuration.database.read { transaction -> ChangeRow? in
            guard let remote = try transaction.existingRemote(for: key),
                let noted = try transaction.exclusion(collection, remote: remote, direction: .push, id: id), noted.kind == .rejected, wanted.isOutdated(noted)
            else { return nil }
            let row = try transaction.changes(
                collection, since: 0, limit: 1, includeBodies: wanted.pushFilter != nil, ids: [id], remote: remote
            ).first
            return row.flatMap { wanted.owes($0) ? $0 : nil }
        }
    }
}

extension CollectionReplication {
    /// The filter version whose verdict about pushes counts; nil if no version of the filter can be asked, so the last verdict stands.
    var judge: (plugin: String, version: String)? {
        guard let pushFilter else { return ("", "") }
        let version = pushFilter.version
        return version.isEmpty ? nil : (pushFilter.pluginName, version)
    }

    /// Whether the remote is not known to have it, and it is not a deletion to be skipped.
    fileprivate func owes(_ row: ChangeRow) -> Bool {
        row.remoteRevision != row.revision && !(skipsDeletions && row.isDeleted && row.remoteRevision == nil)
    }

    /// Whether the verdict on record comes from another version, or from a filter that no longer exists.
    func isOutdated(_ noted: Exclusion) -> Bool {
        guard let judge else { return false }
        return noted.plugin != judge.plugin || noted.version != judge.version
    }
}
