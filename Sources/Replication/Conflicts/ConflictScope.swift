import DocumentStore

/// Which pending conflicts of a collection a decider looks after. Each has one, so that a replicator's resolver does not
/// decide what another replicator pulled.
public enum ConflictScope: Sendable, Equatable {
    /// What this remote brought, and branches that belong to nobody.
    case remote(RemoteID)
    /// What peers pushed, what these remotes did not bring, and branches that belong to nobody.
    case others(than: Set<RemoteID>)
    /// What remotes brought that are no longer here. What peers pushed and branches that belong to nobody stay as they are.
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
