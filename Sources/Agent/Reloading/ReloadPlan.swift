import AgentConfiguration

/// What a change to another configuration affects.
struct ReloadPlan {
    let old: AgentSettings
    /// The new settings, as far as they can take effect before the next start.
    let new: AgentSettings
    let change: SettingsDifference
    /// Stopped, and started again unless they were removed. A listener that an operator stopped is not among them, unless its own settings change.
    let listenersToStop: Set<String>
    /// Listeners that do not have their port yet.
    private let waitingListeners: Set<String>
    let replicatorsToStop: Set<String>
    /// Closed, and opened again unless they were removed.
    let closedDatabases: Set<String>
    /// Databases whose quota changes while they are in use, without any effect on their users.
    let changedQuotas: Set<String>
    /// Likewise, databases whose document size for warnings changes.
    let changedWarnings: Set<String>
    /// Databases whose conflicts are resolved differently, or that are reopened.
    let touchedResolvers: Set<String>
    /// Changed settings that take effect only at the next start.
    let waitingForStart: [String]
    /// Plugins start: none are running yet, and now there is a folder with some.
    let startsPlugins: Bool

    /// - Parameters:
    ///   - stopped: listeners that an operator stopped.
    ///   - waiting: listeners that do not have their port yet.
    ///   - hasPlugins: whether plugins are running, from whatever folder.
    init(from old: AgentSettings, to wanted: AgentSettings, stopped: Set<String>, waiting waitingListeners: Set<String>, hasPlugins: Bool) {
        self.old = old
        self.waitingListeners = waitingListeners
        change = wanted.difference(from: old)
        var new = wanted
        // These stay as they are until the agent ends.
        (new.data, new.plugins, new.admin, new.pluginLimits) = (old.data, old.plugins, old.admin, old.pluginLimits)
        new.limits.memory = old.limits.memory
        var waiting = [SettingsDifference.GlobalSection.data, .plugins, .admin].filter(change.global.contains).map(\.rawValue)
        if wanted.limits.memory != old.limits.memory { waiting.append("limits.memory") }
        if !change.pluginLimits.isEmpty { waiting.append("plugin_limits") }
        startsPlugins = !hasPlugins && wanted.plugins != nil
        if startsPlugins { new.plugins = wanted.plugins }
        waitingForStart = startsPlugins ? waiting.filter { $0 != SettingsDifference.GlobalSection.plugins.rawValue } : waiting
        self.new = new
        // Which replaced bodies a database keeps depends on whether its conflicts have a resolver.
        func isResolved(_ name: String, _ settings: AgentSettings) -> Bool { settings.database(named: name)?.conflictResolver != nil }
        // These changes have no effect on a database's users.
        let quiet: Set = ["quota", "warn_document_bytes"]
        // If a database has a quota, its blobs are counted when it is opened.
        func mayStayOpen(_ change: SettingsDifference.Change) -> Bool {
            Set(change.keys).isSubset(of: quiet.union(["collections", "conflict_resolver", "validate"]))
                && (!change.keys.contains("quota") || old.database(named: change.name)?.quota != nil)
        }
        closedDatabases = Set(
            change.databases.removed
                + change.databases.changed.map(\.name).filter { isResolved($0, old) != isResolved($0, wanted) }
                + change.databases.changed.filter { !mayStayOpen($0) }.map(\.name))
        changedQuotas = Set(change.databases.changed.filter { $0.keys.contains("quota") }.map(\.name)).subtracting(closedDatabases)
        changedWarnings = Set(change.databases.changed.filter { $0.keys.contains("warn_document_bytes") }.map(\.name)).subtracting(closedDatabases)
        touchedResolvers = closedDatabases.union(change.databases.changed.filter { $0.keys.contains("conflict_resolver") }.map(\.name))
        let touchedDatabases = Set(change.databases.removed + change.databases.changed.map(\.name))
            .subtracting(change.databases.changed.filter { quiet.isSuperset(of: $0.keys) && mayStayOpen($0) }.map(\.name))
        var replicators = Set(change.replicators.removed + change.replicators.changed.map(\.name))
        for replicator in old.replicators where touchedDatabases.contains(replicator.database.value) { replicators.insert(replicator.name.value) }
        if wanted.limits.maxBlobBytes != old.limits.maxBlobBytes { replicators.formUnion(old.replicators.map(\.name.value)) }
        for replicator in old.replicators where replicator.target.value.scheme == .local && touchedDatabases.contains(replicator.target.value.path) {
            replicators.insert(replicator.name.value)
        }
        replicatorsToStop = replicators
        let own = Set(change.listeners.removed + change.listeners.changed.map(\.name))
        var listeners = own
        // Their connections use the database, or its resolver.
        for listener in old.listeners where listener.databases.contains(where: { [touchedResolvers] in touchedResolvers.contains($0.value) }) {
            listeners.insert(listener.name.value)
        }
        if wanted.limits.maxBlobBytes != old.limits.maxBlobBytes { listeners.formUnion(old.listeners.map(\.name.value)) }
        listenersToStop = own.union(listeners.subtracting(stopped))
    }

    /// Connections are restarted with the new limit, and documents held because of a blob's size are tried again.
    var changesBlobLimit: Bool { old.limits.maxBlobBytes != new.limits.maxBlobBytes }

    /// The fleet's documents are in another database, or their settings have changed.
    var changesFleet: Bool { change.global.contains(.fleet) || closedDatabases.contains(new.fleet?.database.value ?? "") }

    var startedListeners: [ListenerSettings] {
        let known = Set(old.listeners.map(\.name.value))
        return new.listeners.filter { listenersToStop.contains($0.name.value) || !known.contains($0.name.value) }
    }

    var startedReplicators: [ReplicatorSettings] {
        let known = Set(old.replicators.map(\.name.value))
        return new.replicators.filter { replicatorsToStop.contains($0.name.value) || !known.contains($0.name.value) }
    }

    /// A listener that already waits for its port, and whose port does not change, goes on waiting, as after a start. A port that is new in the
    /// configuration has to be free, otherwise the reload is refused.
    func mayWait(_ listener: ListenerSettings) -> Bool {
        let name = listener.name.value
        guard waitingListeners.contains(name), let before = old.listeners.first(where: { $0.name.value == name }) else { return false }
        return before.interface?.value == listener.interface?.value && before.port.value == listener.port.value
            && before.endpoint?.value.path == listener.endpoint?.value.path
    }

    /// The port may still be held by a listener that is about to stop.
    func mustWait(_ listener: ListenerSettings) -> Bool {
        if let endpoint = listener.endpoint?.value {
            return old.listeners.contains { listenersToStop.contains($0.name.value) && $0.endpoint?.value.path == endpoint.path }
        }
        return listener.port.value != 0
            && old.listeners.contains { listenersToStop.contains($0.name.value) && $0.endpoint == nil && $0.port.value == listener.port.value }
    }
}
