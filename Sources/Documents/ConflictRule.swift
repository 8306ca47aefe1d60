/// Which side of a conflict a rule chose.
public enum ConflictWinner: Sendable, Equatable { case local, remote }

/// The conflict rules of Couchbase Lite (client-behaviour.md section 7).
public enum ConflictRule {
    /// Couchbase Lite 2.x to 3.x.
    ///
    /// If exactly one side is deleted, it wins; if both are, the remote one wins. Otherwise the higher generation wins, then the greater digest; for
    /// the same revision, the remote one.
    public static func defaultWinner(
        local: (revision: RevisionID, deleted: Bool), remote: (revision: RevisionID, deleted: Bool)
    ) -> ConflictWinner {
        if local.deleted != remote.deleted { return local.deleted ? .local : .remote }
        if local.deleted { return .remote }
        return remote.revision < local.revision ? .local : .remote
    }

    /// Couchbase Lite 4.x: if exactly one side is deleted, it wins; if both are, the remote one wins. Otherwise the side with the later version wins;
    /// at the same time, the one with the greater source, so that both peers choose the same.
    public static func laterWinner(local: (version: VectorVersion, deleted: Bool), remote: (version: VectorVersion, deleted: Bool)) -> ConflictWinner {
        if local.deleted != remote.deleted { return local.deleted ? .local : .remote }
        if local.deleted { return .remote }
        return remote.version < local.version ? .local : .remote
    }
}
