import Interfaces
import LuaRuntime

/// Candidates: plugins that run alongside serving plugins.
extension PluginHost {
    /// A filter with unchanged verdicts, and a candidate that is given the same input afterwards.
    ///
    /// - Parameters:
    ///   - hook: the hook of both the filter and the candidate.
    ///   - usedBy: the place of the filter; the candidate's use has "shadow" appended.
    package func shadowed(
        _ filter: any DocumentFilter, hook: LuaHook, by plugin: String, params: LuaValue = .missing, usedBy: String
    ) throws(PluginError) -> any DocumentFilter {
        let (use, tally) = try candidate(plugin, hook, params, usedBy, beside: filter.pluginName)
        let candidate = PluginFilter(use: use)
        let serving = (filter as? PluginFilter)?.use
        return ShadowedFilter(
            filter: filter,
            shadow: Shadow(
                use: use, tally: tally, queue: core.shadows, serving: { serving?.version ?? filter.version }, view: { $0 },
                ask: { await candidate.evaluate($0, $1) }))
    }

    /// The same for a sync function.
    ///
    /// - Parameter comparesAssignments: false if the function only decides which writes are allowed.
    package func shadowed(
        _ function: any SyncFunction, by plugin: String, params: LuaValue = .missing, usedBy: String, comparesAssignments: Bool = true
    ) throws(PluginError) -> any SyncFunction {
        let (use, tally) = try candidate(plugin, .sync, params, usedBy, beside: function.pluginName)
        let candidate = PluginSyncFunction(use: use)
        let serving = (function as? PluginSyncFunction)?.use
        return ShadowedSyncFunction(
            function: function,
            shadow: Shadow(
                use: use, tally: tally, queue: core.shadows, serving: { serving?.version ?? function.version },
                view: { comparesAssignments ? $0 : $0.withoutAssignment }, ask: { await candidate.assign($0, $1) }))
    }

    /// A resolver to be called alongside another one, and the counter of its comparisons.
    ///
    /// - Parameter serving: the plugin that makes the decisions.
    package func shadowResolver(
        plugin: String, params: LuaValue = .missing, usedBy: String, beside serving: String
    ) throws(PluginError) -> (resolver: any ConflictResolver, counter: any ShadowCounter) {
        let (use, tally) = try candidate(plugin, .resolve, params, usedBy, beside: serving)
        return (PluginResolver(use: use), tally)
    }

    /// Returns once no comparisons are waiting any more.
    package func shadowsDrained() async { await core.shadows.drained() }

    private func candidate(
        _ plugin: String, _ hook: LuaHook, _ params: LuaValue, _ place: String, beside serving: String
    ) throws(PluginError) -> (PluginUse, ShadowTally) {
        let tally = core.record(named: plugin)?.tally(hook, at: place, beside: serving)
            ?? ShadowTally(place: place, beside: serving, time: core.environment.time)
        return (try use(plugin, hook, params, "\(place) shadow", nil, shadow: tally), tally)
    }
}

extension PluginRecord {
    /// The tally of another use in the same place, such as a replicator's next collection.
    func tally(_ hook: LuaHook, at place: String, beside serving: String) -> ShadowTally? {
        read { fields in
            fields.uses.values.first { use in
                use.hook == hook && use.shadow?.place.utf8.elementsEqual(place.utf8) == true && use.shadow?.beside.utf8.elementsEqual(serving.utf8) == true
            }?.shadow
        }
    }

    /// The comparisons of a plugin as a candidate, ordered by place.
    static func shadows(_ uses: some Sequence<Registration>) -> [PluginStatus.Shadow] {
        var seen: [ShadowTally] = []
        for case let tally? in uses.map(\.shadow) where !seen.contains(where: { $0 === tally }) { seen.append(tally) }
        return seen.map { $0.read() }.sorted { ($0.place, $0.beside) < ($1.place, $1.beside) }
    }
}
