import Replication

/// Begins something with each replicator, also with those that a reload adds, and ends it with them.
struct RosterFollower: Sendable {
    let roster: ReplicatorRoster
    /// The name of the one that is wanted; nil for all.
    var only: String?
    let begin: @Sendable (Replicator) -> [Task<Void, Never>]

    typealias Followed = [ObjectIdentifier: [Task<Void, Never>]]

    /// Those that there are now, at once: nothing that they tell from then on is missed.
    func start() -> Followed {
        var followed: Followed = [:]
        update(&followed, to: roster.current)
        return followed
    }

    /// Until the task is cancelled.
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
