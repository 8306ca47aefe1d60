import Documents
import SQLite

// The history of decided conflicts.
extension ReadTransaction {
    /// Decided conflicts, newest first.
    ///
    /// - Parameters:
    ///   - collection: only conflicts of this collection; nil for all.
    ///   - id: only conflicts of this document.
    ///   - before: only numbers below this one, to continue a list.
    public final func conflictHistory(
        _ collection: Collection? = nil, id: DocumentID? = nil, before: Int64? = nil, limit: Int, includeBodies: Bool
    ) throws(StoreError) -> [ConflictHistoryEntry] {
        var conditions: [String] = []
        if let before { conditions.append("number < \(before)") }
        if let collection { conditions.append("collection = \(collection.id)") }
        if id != nil { conditions.append("id = ?2") }
        let filter = conditions.isEmpty ? "" : " WHERE " + conditions.joined(separator: " AND ")
        return try history("\(filter) ORDER BY number DESC LIMIT ?1", id: id, limit: limit, includeBodies: includeBodies)
    }

    /// One decided conflict; nil if it is not, or no longer, in the history.
    public final func conflictHistoryEntry(_ number: Int64) throws(StoreError) -> ConflictHistoryEntry? {
        try history(" WHERE number = \(number) LIMIT ?1", id: nil, limit: 1, includeBodies: true).first
    }

    public final func conflictHistoryCounts() throws(StoreError) -> ConflictHistoryCounts {
        var counts = ConflictHistoryCounts()
        // Numbers have gaps only at the front, so entries need not be counted individually.
        let ends = try active().cached("SELECT (SELECT min(number) FROM conflict_history), (SELECT max(number) FROM conflict_history)")
        defer { ends.reset() }
        guard try session.step(ends), !ends.isNull(0) else { return counts }
        counts.kept = max(0, Int(truncatingIfNeeded: ends.integer(1) &- ends.integer(0) &+ 1))
        let shadows = try session.cached("SELECT shadow, count(*) FROM conflict_history WHERE shadow IS NOT NULL GROUP BY shadow")
        defer { shadows.reset() }
        while try session.step(shadows) {
            let count = Int(clamping: shadows.integer(1))
            switch ShadowVerdict.Outcome(rawValue: shadows.integer(0)) {
            case .same: counts.shadowSame = count
            case .differs: counts.shadowDiffers = count
            case .failed: counts.shadowFailed = count
            case nil: break
            }
        }
        return counts
    }

    final func newestHistoryNumber() throws(StoreError) -> Int64? {
        let statement = try active().cached("SELECT max(number) FROM conflict_history")
        defer { statement.reset() }
        return try session.step(statement) && !statement.isNull(0) ? statement.integer(0) : nil
    }

    private func history(_ condition: String, id: DocumentID?, limit: Int, includeBodies: Bool) throws(StoreError) -> [ConflictHistoryEntry] {
        let known = Dictionary(try collections().map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
        let bodies = includeBodies
            ? "local_body, remote_body, base_body, result_body, shadow_body, local_version, remote_version, result_version"
            : Array(repeating: "NULL", count: 8).joined(separator: ", ")
        let statement = try active().prepare("""
            SELECT number, at, collection, id, place, place_name, peer, user, local_rev, remote_rev, base_rev, result_rev, flags, \
            decision, plugin, version, duration, shadow, shadow_plugin, shadow_version, shadow_decision, shadow_error, \
            shadow_duration, \(bodies) FROM conflict_history\(condition)
            """)
        statement.bind(1, Int64(min(max(limit, 0), StoreLimits.maxRowsPerRead)))
        if let id { statement.bind(2, id.text) }
        var entries: [ConflictHistoryEntry] = []
        while try session.step(statement) {
            guard let collection = known[Int(clamping: statement.integer(2))] else { continue }
            entries.append(Self.entry(statement, collection))
        }
        return entries
    }

    private static func entry(_ statement: Statement, _ collection: Collection) -> ConflictHistoryEntry {
        let flags = statement.integer(12)
        let decision = DecisionKind(stored: statement.integer(13)) ?? .remote
        func side(_ revision: Int32, _ body: Int32, version: Int32? = nil, isDeleted: Bool) -> ConflictHistoryEntry.Side {
            ConflictHistoryEntry.Side(
                revision: RevisionID(stored: statement.text(revision)), isDeleted: isDeleted,
                body: statement.blobIfPresent(body).flatMap { KeptBody(stored: $0) },
                version: version.flatMap { statement.textIfPresent($0) }.flatMap { try? VectorVersion($0) })
        }
        let local = side(8, 23, version: 28, isDeleted: flags & HistoryFlags.localDeleted != 0)
        let remote = side(9, 24, version: 29, isDeleted: flags & HistoryFlags.remoteDeleted != 0)
        var result = side(11, 26, version: 30, isDeleted: decision == .delete)
        switch decision {
        case .local: (result.body, result.isDeleted) = (local.body, local.isDeleted)
        case .remote: (result.body, result.isDeleted) = (remote.body, remote.isDeleted)
        case .merged, .delete: break
        }
        return ConflictHistoryEntry(
            number: statement.integer(0), at: statement.integer(1), collection: collection, id: DocumentID(stored: statement.text(3)),
            place: ConflictPlace(
                kind: ConflictPlace.Kind(rawValue: statement.integer(4)) ?? .save, name: statement.text(5), peer: statement.text(6),
                user: statement.textIfPresent(7)),
            local: local, remote: remote, base: statement.isNull(10) ? nil : side(10, 25, isDeleted: false), decision: decision,
            result: result, plugin: statement.text(14), version: statement.text(15), microseconds: statement.integer(16),
            shadow: shadow(statement))
    }

    private static func shadow(_ statement: Statement) -> ShadowVerdict? {
        guard !statement.isNull(17), let outcome = ShadowVerdict.Outcome(rawValue: statement.integer(17)) else { return nil }
        return ShadowVerdict(
            outcome: outcome, plugin: statement.text(18), version: statement.text(19),
            decision: statement.isNull(20) ? nil : DecisionKind(stored: statement.integer(20)),
            body: statement.blobIfPresent(27).flatMap { KeptBody(stored: $0) }, error: statement.text(21),
            microseconds: statement.integer(22))
    }
}
