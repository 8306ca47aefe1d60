import AgentConfiguration
import Documents
import DocumentStore
import Interfaces
import Replication

/// Conflict keepers: decide what is still pending.
extension Agent {
    /// Prepares who decides the conflicts of each database, and who may refuse what is written to it.
    ///
    /// - Parameter changed: databases whose policies are made anew although there are some; sessions go on with the others.
    func preparePolicies(_ settings: AgentSettings, changed: Set<String>) throws {
        let before = shared.withLock { $0.conflictPolicies }
        let made = try conflictPolicies(settings, before.filter { !changed.contains($0.key) })
        let functions = try validations(settings)
        shared.withLock { ($0.conflictPolicies, $0.validations) = (made, functions) }
        for (name, policy) in before where changed.contains(name) || made[name] == nil { policy.shadow?.stop() }
    }

    /// Who decides the conflicts of each database where a replicator names nobody else. That a resolver is there is checked even
    /// where nothing uses it yet.
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

    /// One keeper for each collection that a replicator pulls, with its resolver, and one for each collection of a database:
    /// for what peers pushed, and for what was pulled from remotes that are no longer configured.
    func makeKeepers(_ settings: AgentSettings) async -> [ConflictKeeper] {
        let source = policies()
        var keepers: [ConflictKeeper] = []
        var remotes: [String: Set<RemoteID>] = [:]
        for replicator in settings.replicators where replicator.direction.pulls {
            guard let database = database(replicator.database.value) else { continue }
            let target = replicator.target.value.shown
            guard let remote = try? await database.write({ try $0.remoteID(for: replicator.remoteKey) }) else { continue }
            for wanted in replicator.collections {
                guard let collection = database.collection(CollectionName(wanted.collection.value)) else { continue }
                remotes["\(database.name).\(collection.name)", default: []].insert(remote)
                let reference = wanted.conflictResolver ?? settings.database(named: replicator.database.value)?.conflictResolver
                let usedBy = "replicator \(replicator.name.value) pending conflicts"
                guard let policy = try? source.conflictPolicy(reference, database: database, usedBy: usedBy) else { continue }
                let context = PolicyContext(
                    database: database.name, collection: collection.name, direction: .pull, replicator: replicator.name.value,
                    remote: target)
                keepers.append(keeper(database, collection, policy, context, .remote(remote)))
            }
        }
        for database in databases {
            let policy = conflictPolicy(database.name)
            // What a peer pushed came through a listener; more than its name is not known any more.
            let listener = settings.listeners.first { $0.databases.contains { $0.value.utf8.elementsEqual(database.name.utf8) } }
            for collection in database.collections {
                let context = PolicyContext(
                    database: database.name, collection: collection.name, direction: .pull, listener: listener?.name.value ?? "",
                    remote: "")
                let others = remotes["\(database.name).\(collection.name)"] ?? []
                // Who has no resolver wants to keep branches as CouchDB keeps them.
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

    /// A database that a replicator pulls into keeps no conflicts: what a client of CouchDB left there goes by the replicator's rule.
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

    /// Who may refuse what is written here; nil where nobody does.
    nonisolated func validation(_ database: Database, _ collection: Collection) -> LocalValidation? {
        shared.withLock { $0.validations[database.name] }.map { LocalValidation(database, collection, $0) }
    }

    /// Who decides when a document is saved on top of a revision that is no longer current; nil where such a save is refused.
    nonisolated func saveDecider(_ database: Database, _ collection: Collection) -> SaveDecider? {
        let policy = conflictPolicy(database.name)
        guard policy.resolver != nil else { return nil }
        return SaveDecider(
            ConflictDecider(
                database: database, collection: collection, resolver: policy.resolver, shadow: policy.shadow,
                context: .save(database.name, collection.name), observer: conflictObserver))
    }

    /// The same by a plugin that the save names, with the defaults of its parameters.
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
    /// Tries pending conflicts again: a plugin changed, or the operator asked.
    package func retryConflicts() async {
        for keeper in keepers { await keeper.retry() }
    }
}

extension PolicyContext {
    /// A document saved here: neither a replicator's nor a listener's.
    package static func save(_ database: String, _ collection: CollectionName) -> PolicyContext {
        PolicyContext(database: database, collection: collection, direction: .pull, remote: "save")
    }
}
