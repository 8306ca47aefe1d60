import Synchronization

/// The remote database that was last reached, for a target that leads to several.
final class ChosenRemote: Sendable {
    private let state = Mutex<String?>(nil)

    var key: String? { state.withLock { $0 } }

    /// - Returns: whether it differs from the previous one.
    func choose(_ key: String?) -> Bool {
        state.withLock { state in
            defer { state = key }
            return state != nil && state != key
        }
    }
}

extension Replicator {
    /// What was found out about another remote database of the target does not apply to this one.
    func choose(_ remote: String?) {
        guard configuration.chosen.choose(remote) else { return }
        (speaksLegacy, selectsLocally, comebacks) = (false, false, 0)
        shared.withLock { $0.missing = MissingRevisions() }
    }
}
