import Replication

/// Starts a task for each replicator, including those that a reload adds, and ends it when the replicator
/// goes.
struct RosterFollower: Sendable {
    let roster: ReplicatorRoster
    /// Only the replicator with this name; nil for all.
    var only: String?
    let begin: @Sendable (Replicator) -> [Task<Void, Never>]

    typealias Followed = [ObjectIdentifier: [Task<Void, Never>]]

    /// Follows the present replicators at once, so that nothing they report from now on is missed.
    func start() -> Followed {
        var followed: Followed = [:]
        update(&followed, to: roster.current)
        return followed
    }

    /// Runs until the task is cancelled.
    func run(_ followed: Followed = [:]) async {
        var followed = followed
        for await replicators in roster.stream() { update(&followed, to: replicators) }
        for task in followed.values.joined() { task.cancel() }
    }

    private func update(_ followed: inout Followed, to replicators: [Replicator]) {
        let wanted = replicators.filter { only?.utf8.elementsEqual($0.configuration.name.utf8) ?? true }
        let ids = Set(wanted.map { ObjectIdentifier($0) })
        for (id, tasks) in followed where !ids.contains(id) {
            for task in tasks { task.cancel() }
            followed[id] = nil
        }
        for replicator in wanted where followed[ObjectIdentifier(replicator)] == nil {
            followed[ObjectIdentifier(replicator)] = begin(replicator)
        }
    }
}
