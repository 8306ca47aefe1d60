import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import Replication

/// Conflict keepers, which decide conflicts that are still pending.
extension Agent {
    /// Prepares each database's conflict policy and its validation of local writes.
    ///
    /// - Parameter changed: databases whose policies are replaced even if they exist; sessions continue with those of the others.
    func preparePolicies(_ settings: AgentSettings, changed: Set<String>) throws {
        let before = shared.withLock { $0.conflictPolicies }
        let made = try conflictPolicies(settings, before.filter { !changed.contains($0.key) })
        let functions = try validations(settings)
        shared.withLock { ($0.conflictPolicies, $0.validations) = (made, functions) }
        for (name, policy) in before where changed.contains(name) || made[name] == nil { policy.shadow?.stop() }
    }

    /// Each database's conflict policy, for replicators that do not name a resolver. A resolver's existence is checked even if nothing uses it yet.
    private func conflictPolicies(_ settings: AgentSettings, _ kept: [String: ConflictPolicy]) throws -> [String: ConflictPolicy] {
        let source = policies()
        var policies: [String: ConflictPolicy] = [:]
        for wanted in settings.databases {
            let name = wanted.name.value
            guard let database = database(name) else { continue }
            policies[name] = try kept[name] ?? source.conflictPolicy(wanted.conflictResolver, database: database, usedBy: "database \(name)")
        }
        return policies
    }

    private func validations(_ settings: AgentSettings) throws -> [String: any SyncFunction] {
        let source = policies()
        var validations: [String: any SyncFunction] = [:]
        for wanted in settings.databases {
            guard let reference = wanted.validate else { continue }
            validations[wanted.name.value] = try source.syncFunction(reference, usedBy: "database \(wanted.name.value) validate", isForRouting: false)
        }
        return validations
    }

    /// For a group target: the remote databases that were reached before.
    private static func remotes(of replicator: ReplicatorSettings, _ transaction: WriteTransaction) throws(StoreError) -> [RemoteID] {
        guard replicator.target.value.group != nil else { return [try transaction.remoteID(for: replicator.remoteKey)] }
        var remotes: [RemoteID] = []
        for key in try transaction.remoteKeys(prefix: "\(replicator.target.value.text) ") { remotes.append(try transaction.remoteID(for: key)) }
        return remotes
    }

    /// One keeper for each collection that a replicator pulls, with its resolver, and one for each collection of a database: for conflicts that peers
    /// pushed, and for those pulled from remotes that are no longer configured.
    func makeKeepers(_ settings: AgentSettings) async -> [ConflictKeeper] {
        let source = policies()
        var keepers: [ConflictKeeper] = []
        var remotes: [String: Set<RemoteID>] = [:]
        for replicator in settings.replicators where replicator.direction.pulls {
            guard let database = database(replicator.database.value) else { continue }
            let target = replicator.target.value.shown
            guard let known = try? await database.write({ try Self.remotes(of: replicator, $0) }) else { continue }
            for wanted in replicator.collections {
                guard let collection = database.collection(CollectionName(wanted.collection.value)) else { continue }
                remotes["\(database.name).\(collection.name)", default: []].formUnion(known)
                let reference = wanted.conflictResolver ?? settings.database(named: replicator.database.value)?.conflictResolver
                let usedBy = "replicator \(replicator.name.value) pending conflicts"
                guard let policy = try? source.conflictPolicy(reference, database: database, usedBy: usedBy) else { continue }
                let context = PolicyContext(
                    database: database.name, collection: collection.name, direction: .pull, replicator: replicator.name.value,
                    remote: target)
                for remote in known { keepers.append(keeper(database, collection, policy, context, .remote(remote))) }
            }
        }
        for database in databases {
            let policy = conflictPolicy(database.name)
            // A peer pushed it through a listener, but nothing beyond the peer's name was recorded.
            let listener = settings.listeners.first { $0.databases.contains { $0.value.utf8.elementsEqual(database.name.utf8) } }
            for collection in database.collections {
                let context = PolicyContext(
                    database: database.name, collection: collection.name, direction: .pull, listener: listener?.name.value ?? "",
                    remote: "")
                let others = remotes["\(database.name).\(collection.name)"] ?? []
                // Without a resolver, branches are kept as in CouchDB.
                let scope = policy.resolver == nil ? ConflictScope.gone(except: others) : .others(than: others)
                keepers.append(keeper(database, collection, policy, context, scope))
            }
        }
        return keepers
    }

    private func keeper(
        _ database: Database, _ collection: Collection, _ policy: ConflictPolicy, _ context: PolicyContext, _ scope: ConflictScope
    ) -> ConflictKeeper {
        ConflictKeeper(
            ConflictDecider(
                database: database, collection: collection, resolver: policy.resolver, shadow: policy.shadow, context: context,
                scope: scope, observer: conflictObserver),
            logger: logs.logger(.replicator))
    }

    /// Conflicts are not kept in a database that a replicator pulls into: conflicts left by a CouchDB client are resolved by the replicator's rule.
    nonisolated var decidesForReplicators: @Sendable (String) -> Void {
        { [weak self] database in
            guard let self else { return }
            Task { for keeper in await self.keepers where keeper.decidesForReplicator(in: database) { await keeper.retry() } }
        }
    }

    // MARK: - For listeners and saves

    nonisolated func conflictPolicy(_ database: String) -> ConflictPolicy { shared.withLock { $0.conflictPolicies[database] } ?? ConflictPolicy() }

    nonisolated var conflictObserver: ConflictObserver {
        let logger = logs.logger(.sync)
        return { [conflicts] event in
            conflicts.send(event)
            event.logDeletion(to: logger)
        }
    }

    /// What may refuse local writes; nil if nothing does.
    nonisolated func validation(_ database: Database, _ collection: Collection) -> LocalValidation? {
        shared.withLock { $0.validations[database.name] }.map { LocalValidation(database, collection, $0) }
    }

    /// What decides when a document is saved on top of a revision that is no longer current; nil if such a save is refused.
    nonisolated func saveDecider(_ database: Database, _ collection: Collection) -> SaveDecider? {
        let policy = conflictPolicy(database.name)
        guard policy.resolver != nil else { return nil }
        return SaveDecider(
            ConflictDecider(
                database: database, collection: collection, resolver: policy.resolver, shadow: policy.shadow,
                context: .save(database.name, collection.name), observer: conflictObserver))
    }

    /// The same with a plugin that the save names, with its default parameters.
    nonisolated func saveDecider(_ database: Database, _ collection: Collection, plugin: String) throws(AgentError) -> SaveDecider {
        let resolver: any ConflictResolver
        do throws(ConfigurationProblem) {
            resolver = try PolicySource(settings: settings, plugins: plugins).resolver(PluginReference(plugin: plugin), usedBy: "a save to \(database.name)")
        } catch { throw AgentError(.invalid, "on_conflict: \(error.message)") }
        return SaveDecider(
            ConflictDecider(
                database: database, collection: collection, resolver: resolver, context: .save(database.name, collection.name),
                observer: conflictObserver))
    }
}

extension Agent {
    /// Without a resolver, conflicting branches are kept, as in CouchDB.
    nonisolated func decidesConflicts(in database: Database) -> Bool {
        conflictPolicy(database.name).resolver != nil
            || settings.replicators.contains { $0.direction.pulls && $0.database.value.utf8.elementsEqual(database.name.utf8) }
    }

    /// How many conflicts ``retryConflicts()`` tries again.
    func pendingConflicts() async throws -> Int {
        var count = 0
        for database in databases where decidesConflicts(in: database) { count += try await database.statistics().reduce(0) { $0 + $1.conflictsPending } }
        return count
    }

    /// Retries pending conflicts: a plugin changed, or the operator asked for it.
    package func retryConflicts() async {
        await keepForReached()
        for keeper in keepers { await keeper.retry() }
    }

    /// The remote databases of a group become known only as they are reached. Each needs a keeper with its replicator's resolver; otherwise its
    /// conflicts would be decided by the rule for remotes that no longer exist.
    private func keepForReached() async {
        guard !isStopping, !keepers.isEmpty, settings.replicators.contains(where: { $0.target.value.group != nil && $0.direction.pulls }) else { return }
        let made = await makeKeepers(settings)
        guard !isStopping, !keepers.isEmpty else { return }
        let old = keepers
        keepers = made
        for keeper in old { await keeper.stop() }
    }
}

extension PolicyContext {
    /// The context for a document that is saved locally, by neither a replicator nor a listener.
    package static func save(_ database: String, _ collection: CollectionName) -> PolicyContext {
        PolicyContext(database: database, collection: collection, direction: .pull, remote: PolicyContext.ownSave)
    }
}
