import PluginHost
import Replication

extension Agent {
    /// What somebody should look at although the agent does its work.
    nonisolated func attention() async -> [String] {
        var reasons: [String] = []
        for replicator in replicators {
            let held = (try? await replicator.heldCount()) ?? 0
            if held > 0 {
                let name = replicator.configuration.name
                reasons.append("replicator \(name): \(held) documents are held because their filter failed (nightjar replicator \(name) held)")
            }
        }
        for listener in listeners {
            reasons += attention(of: listener).map { "listener \(listener.settings.name.value): \($0)" }
        }
        for plugin in plugins?.status() ?? [] where !plugin.usedBy.isEmpty {
            if plugin.version != nil, let refused = plugin.refused {
                reasons.append("plugin \(plugin.name): \(refused.error); the version before serves")
            }
            for problem in plugin.parameterProblems { reasons.append("plugin \(plugin.name): \(problem); its last text stays in force") }
        }
        return reasons
    }
}

extension PeerListener {
    /// Documents of peers that a policy failed on, or the store could not take. What no peer has tried for an hour is over.
    var attention: [String] {
        let now = time.wallSeconds()
        waiting.forget { $0.last < now - 3_600 }
        return waiting.summary()
    }
}
