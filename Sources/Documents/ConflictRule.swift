/// Which side of a conflict a rule chose.
public enum ConflictWinner: Sendable, Equatable { case local, remote }

/// The conflict rule of Couchbase Lite 2.x to 3.x (client-behaviour.md section 7).
public enum ConflictRule {
    /// If exactly one side is deleted, it wins; if both are, the remote one. Else the higher generation, then the
    /// greater digest, and of the same revision the remote one.
    public static func defaultWinner(
        local: (revision: RevisionID, deleted: Bool), remote: (revision: RevisionID, deleted: Bool)
    ) -> ConflictWinner {
        if local.deleted != remote.deleted { return local.deleted ? .local : .remote }
        if local.deleted { return .remote }
        return remote.revision < local.revision ? .local : .remote
    }
}
