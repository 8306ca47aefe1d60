import DocumentStore

/// The pending conflicts of a collection for which a decider is responsible. Every conflict has only one decider, so that a replicator's resolver
/// does not decide what another replicator pulled.
public enum ConflictScope: Sendable, Equatable {
    /// Conflicts brought by this remote, and branches without an owner.
    case remote(RemoteID)
    /// Conflicts pushed by peers or otherwise not brought by these remotes, and branches without an owner.
    case others(than: Set<RemoteID>)
    /// Conflicts brought by remotes that no longer exist here. Those pushed by peers, and branches without an owner, are left alone.
    case gone(except: Set<RemoteID>)
    case all

    func contains(_ remote: RemoteID?) -> Bool {
        guard let remote else {
            if case .gone = self { return false }
            return true
        }
        switch self {
        case .gone(let present): return remote != .pusher && !present.contains(remote)
        case .remote(let own): return remote == own
        case .others(let replicators): return !replicators.contains(remote)
        case .all: return true
        }
    }
}
