import Documents
import SQLite

// The history of decided conflicts. Only the transaction that decides a conflict writes here.
extension WriteTransaction {
    /// Records a decided conflict and removes entries beyond the length of the history.
    /// - Returns: its number; nil if no history is kept.
    @discardableResult
    public func recordDecision(_ collection: Collection, _ decided: DecidedConflict) throws(StoreError) -> Int64? {
        guard session.options.conflictHistory > 0 else { return nil }
        let conflict = decided.conflict
        var flags: Int64 = 0
        if conflict.local.isDeleted { flags |= HistoryFlags.localDeleted }
        if conflict.remote.isDeleted { flags |= HistoryFlags.remoteDeleted }
        let statement = try active().cached("""
            INSERT INTO conflict_history(at, collection, id, place, place_name, peer, user, local_rev, remote_rev, base_rev, \
            result_rev, flags, decision, plugin, version, duration, local_body, remote_body, base_body, result_body, local_version, remote_version, \
            result_version) \
            VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
            """)
        statement.bind(1, state.now)
        statement.bind(2, Int64(collection.id))
        statement.bind(3, conflict.id.text)
        statement.bind(4, decided.place.kind.rawValue)
        statement.bind(5, decided.place.name)
        statement.bind(6, decided.place.peer.cut(StoreLimits.maxErrorTextBytes))
        statement.bind(7, decided.place.user?.cut(StoreLimits.maxErrorTextBytes))
        statement.bind(8, conflict.local.revision.text)
        statement.bind(9, conflict.remote.revision.text)
        statement.bind(10, (conflict.base?.revision ?? conflict.baseRevision)?.text)
        statement.bind(11, decided.result.text)
        statement.bind(12, flags)
        statement.bind(13, decided.resolution.kind.stored)
        statement.bind(14, decided.plugin)
        statement.bind(15, decided.version)
        statement.bind(16, decided.microseconds)
        statement.bind(17, conflict.local.isDeleted ? nil : KeptBody(conflict.local.body).stored)
        statement.bind(18, conflict.remote.isDeleted ? nil : KeptBody(conflict.remote.body).stored)
        statement.bind(19, conflict.base.map { KeptBody($0.body).stored })
        // The body of a winning side is already recorded.
        var merged: [UInt8]?
        if case .merged(let body) = decided.resolution { merged = KeptBody(body).stored }
        statement.bind(20, merged)
        statement.bind(21, conflict.local.version?.description)
        statement.bind(22, conflict.remote.version?.description)
        statement.bind(23, state.versions.isInUse ? try currentVector(collection, conflict.id)?.current.description : nil)
        try session.run(statement)
        state.rows += 1
        let number = session.connection.lastInsertedRowID
        try removeHistory(upTo: max(number, 0) - Int64(session.options.conflictHistory))
        return number
    }

    /// Adds a shadow's decision; does nothing if the entry is gone.
    public func recordShadow(_ number: Int64, _ shadow: ShadowVerdict) throws(StoreError) {
        let statement = try active().cached("""
            UPDATE conflict_history SET shadow = ?2, shadow_plugin = ?3, shadow_version = ?4, shadow_decision = ?5, \
            shadow_error = ?6, shadow_duration = ?7, shadow_body = ?8 WHERE number = ?1
            """)
        statement.bind(1, number)
        statement.bind(2, shadow.outcome.rawValue)
        statement.bind(3, shadow.plugin)
        statement.bind(4, shadow.version)
        if let decision = shadow.decision { statement.bind(5, decision.stored) } else { statement.bindNull(5) }
        statement.bind(6, shadow.error.cut(StoreLimits.maxErrorTextBytes))
        statement.bind(7, shadow.microseconds)
        statement.bind(8, shadow.body?.stored)
        try session.run(statement)
        state.rows += 1
    }

    /// Trims the history to the length set by the options, after they have changed.
    public func trimConflictHistory() throws(StoreError) {
        guard let last = try newestHistoryNumber() else { return }
        try removeHistory(upTo: max(last, 0) - Int64(max(0, session.options.conflictHistory)))
    }

    /// A purge removes the bodies from the history; the fact that the document's conflicts were decided, and how, remains.
    func forgetHistoryBodies(_ collection: Collection, _ id: DocumentID) throws(StoreError) {
        let statement = try active().cached("""
            UPDATE conflict_history SET local_body = NULL, remote_body = NULL, base_body = NULL, result_body = NULL, \
            shadow_body = NULL WHERE collection = ?1 AND id = ?2
            """)
        statement.bind(1, Int64(collection.id))
        statement.bind(2, id.text)
        try session.run(statement)
    }

    private func removeHistory(upTo number: Int64) throws(StoreError) {
        guard number > 0 else { return }
        let statement = try active().cached("DELETE FROM conflict_history WHERE number <= ?1")
        statement.bind(1, number)
        try session.run(statement)
    }
}

extension Resolution {
    public var kind: DecisionKind {
        switch self {
        case .localWins: .local
        case .remoteWins: .remote
        case .merged: .merged
        case .delete: .delete
        }
    }
}
