import LuaRuntime

/// The state of one plugin thread: a Lua state for each version that it has run. Confined to its thread.
final class PluginWorker {
    private var states: [Int: VersionState] = [:]
    private let limits: PluginHostLimits

    init(_ limits: PluginHostLimits) { self.limits = limits }

    func state(for version: LoadedVersion, of record: PluginRecord) -> VersionState {
        if let known = states[version.serial] { return known }
        let made = VersionState(version, record, contexts: limits.contextsPerState)
        states[version.serial] = made
        return made
    }

    func sweep() { states = states.filter { $0.value.isReferred } }
}

/// The Lua state of one version on one worker, created when first needed and again after it has run out of memory.
final class VersionState {
    private weak var version: LoadedVersion?
    private let source: PluginSource
    private let limits: PluginLimits
    private let record: PluginRecord
    private let host: StateHost
    private let contextLimit: Int
    private var contexts: [Prepared] = []
    private(set) var lua: LuaPluginState?
    /// The memory that was last reported to the record.
    private var reported = 0

    private struct Prepared {
        var serial: Int
        var context: CallContext
        var use: LuaUse
    }

    init(_ version: LoadedVersion, _ record: PluginRecord, contexts: Int) {
        self.version = version
        source = version.source
        limits = version.limits
        self.record = record
        contextLimit = max(1, contexts)
        host = StateHost(record)
    }

    deinit { report(0) }

    /// Reports the state's present memory to the record.
    func reportMemory() { report(lua?.memoryBytes ?? 0) }

    private func report(_ bytes: Int) {
        if bytes != reported {
            record.statistics.holds(bytes - reported, states: (bytes > 0 ? 1 : 0) - (reported > 0 ? 1 : 0))
        }
        reported = bytes
    }

    var isReferred: Bool { version != nil }

    /// The state and its `ctx` for this use, created if necessary.
    func enter(_ prepared: PreparedUse, _ context: CallContext) throws(LuaFailure) -> (lua: LuaPluginState, use: LuaUse) {
        let lua: LuaPluginState
        if let known = self.lua { lua = known } else { lua = try build() }
        host.enter(context)
        if let index = contexts.firstIndex(where: { $0.serial == prepared.serial && $0.context == context }) {
            // Moves the most recently used one to the front, so that searches are short and the oldest is last.
            if index > 0 { contexts.insert(contexts.remove(at: index), at: 0) }
            return (lua, contexts[0].use)
        }
        if contexts.count >= contextLimit, let oldest = contexts.popLast() { lua.release(oldest.use) }
        let use = try lua.makeUse(LuaContext(
            params: prepared.params, database: context.database, scope: context.scope, collection: context.collection,
            direction: context.direction, replicator: context.replicator, listener: context.listener, remote: context.remote,
            user: context.user, subprotocol: context.subprotocol, plugin: source.name, version: prepared.version))
        contexts.insert(Prepared(serial: prepared.serial, context: context, use: use), at: 0)
        return (lua, use)
    }

    /// Drops the state if it has run out of memory or is about to; the next call creates a new one. Returns whether it did.
    @discardableResult
    func discardIfExhausted(after failure: LuaFailure? = nil) -> Bool {
        defer { if failure == nil { reportMemory() } }
        guard let lua, failure?.kind == .memory || lua.needsRebuild else { return false }
        self.lua = nil
        contexts = []
        record.statistics.rebuilt()
        return true
    }

    private func build() throws(LuaFailure) -> LuaPluginState {
        let made = try LuaPluginState(
            name: source.name, chunkName: source.main.path, source: source.main.bytes, modules: PluginSource.Loader(source: source),
            host: host, limits: limits.state)
        lua = made
        contexts = []
        return made
    }
}
