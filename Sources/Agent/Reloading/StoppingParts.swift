import AgentConfiguration
import Replication

/// Stopping parts that are removed or replaced.
extension Agent {
    /// Undoes ``startPlugins(_:)`` if nothing uses the plugins yet.
    func stopPlugins() async {
        let host = shared.withLock { shared in
            defer { shared.plugins = nil }
            return shared.plugins
        }
        host?.beginShutdown()
        pluginWatch?.cancel()
        await host?.shutdown()
        pluginStates?.flush()
        (pluginWatch, pluginStates) = (nil, nil)
    }

    /// - Returns: one line for each replicator that was running or is removed.
    func stopReplicators(_ names: Set<String>, removed: Set<String>) async -> [String] {
        let gone = shared.withLock { state in
            let gone = state.replicators.filter { names.contains($0.configuration.name) }
            state.replicators.removeAll { names.contains($0.configuration.name) }
            for name in names { (state.replicatorSecurity[name], state.replicatorSecrets[name]) = (nil, nil) }
            return gone
        }
        roster.changed(replicators)
        let told = gone.filter { $0.status.activity != .stopped || removed.contains($0.configuration.name) }
        await withTaskGroup(of: Void.self) { tasks in
            for replicator in gone { tasks.addTask { await replicator.stop() } }
        }
        remember(gone)
        await observers.end(gone, within: StopLimits.observers)
        return told.map { "replicator \($0.configuration.name) stopped" }
    }

    /// - Parameter closing: databases that must not be in use any more, or not as before, when this returns; nil for all. A listener that serves none
    ///   of them only releases its port here, and its last connections end in the background.
    func stopListeners(_ names: Set<String>, removed: Set<String>, closing: Set<String>? = nil) async -> [String] {
        let gone = shared.withLock { state in
            let gone = state.listeners.filter { names.contains($0.settings.name.value) }
            state.listeners.removeAll { names.contains($0.settings.name.value) }
            return gone
        }
        // In parallel: each may have to wait for a peer that does not answer.
        await withTaskGroup(of: Void.self) { tasks in
            for listener in gone {
                // A removed listener does not come back; a changed one starts again at once.
                let code: UInt16 = removed.contains(listener.settings.name.value) ? 1001 : 4001
                let mayCloseLater = closing.map { closing in
                    listener.settings.endpoint == nil && !listener.settings.databases.contains { closing.contains($0.value) }
                }
                tasks.addTask { [leaving] in
                    guard mayCloseLater == true else { return await listener.stop(code: code) }
                    await listener.stopAccepting()
                    leaving.leave(listener, code: code)
                }
            }
        }
        return gone.map { "listener \($0.settings.name.value) stopped" }
    }
}
