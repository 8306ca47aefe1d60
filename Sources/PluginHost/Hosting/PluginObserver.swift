import Interfaces
import LuaRuntime
import Synchronization

/// A plugin that observes a replicator, with those of the hooks on_status and on_documents that the version in force has: at least one of them.
package final class PluginObserver: Sendable {
    package let plugin: String
    private let uses = Mutex([LuaHook: PluginUse]())
    private let make: @Sendable (LuaHook) throws(PluginError) -> PluginUse

    /// - Parameter make: creates a use of one hook; called again for a hook that the plugin did not have.
    init(_ plugin: String, hears hook: LuaHook, make: @escaping @Sendable (LuaHook) throws(PluginError) -> PluginUse) throws(PluginError) {
        (self.plugin, self.make) = (plugin, make)
        let use = try make(hook)
        uses.withLock { $0[hook] = use }
    }

    private func use(_ hook: LuaHook) -> PluginUse? {
        if let use = uses.withLock({ $0[hook] }) { return use }
        // A new version may have added it.
        guard let use = try? make(hook) else { return nil }
        uses.withLock { $0[hook] = use }
        return use
    }

    /// Calls the hook, if the plugin has it, and returns when it has run. Its result, or failure, affects nobody else.
    ///
    /// - Parameter news: the argument as JSON text.
    package func tell(_ hook: LuaHook, _ news: [UInt8], database: String, replicator: String, remote: String) async {
        guard let use = use(hook), let call = try? await use.call(CallContext(database: database, replicator: replicator, remote: remote)) else { return }
        await withCheckedContinuation { use.pool.submit(ObserverJob(call, news, $0)) }
    }

    /// Counts documents that were dropped because the plugin is too slow.
    package func missed(_ documents: Int) { use(.onDocuments)?.record.statistics.notAsked(documents, .onDocuments) }
}

extension LuaHook {
    /// A plugin with any of these can observe a replicator.
    static let observing: Set<LuaHook> = [.onStatus, .onDocuments]
}

extension LoadedVersion {
    /// The use accepts any of several hooks; this version lacks this one and has another, so nothing is missing.
    func hasInstead(of hook: LuaHook) -> Bool { !hooks.contains(hook) && LuaHook.observing.contains(hook) && !hooks.isDisjoint(with: LuaHook.observing) }
}

/// One thing to tell.
private typealias ObserverJob = SingleJob<Void>

extension SingleJob where Answer == Void {
    fileprivate convenience init(_ call: PluginCall, _ news: [UInt8], _ continuation: CheckedContinuation<Void, Never>) {
        self.init(call, continuation, failed: { _ in }) { (call, lua, use, _) throws(LuaFailure) in
            try lua.callObserver(call.hook, news, use: use, limits: call.limits)
        }
    }
}

extension PluginListing {
    /// The observer hook that the plugin has, or the one it lacks.
    package var observerHook: LuaHook {
        hooks.contains(LuaHook.onDocuments.rawValue) && !hooks.contains(LuaHook.onStatus.rawValue) ? .onDocuments : .onStatus
    }
}
