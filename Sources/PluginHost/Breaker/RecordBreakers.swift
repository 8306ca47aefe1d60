import Interfaces
import LuaRuntime

/// A plugin's breakers, one per use.
extension PluginRecord {
    /// A use has failed too often in a row.
    func opened(_ opened: Breaker.Opened, use: Int, version: String) {
        let registration = read { $0.uses[use] }
        // Nothing is held because of a candidate; its failures are counted with its differences.
        if registration?.shadow == nil {
            send(.failing(
                plugin: name, version: version, usedBy: registration?.usedBy ?? "a use that has ended", failures: opened.failures,
                message: opened.message))
        }
        reportBreakerOpened()
    }

    /// A failing use has answered: documents that it held are offered again.
    func recovered(use: Int, version: String) {
        guard let registration = read({ $0.uses[use] }), registration.shadow == nil else { return }
        send(.recovered(plugin: name, version: version, usedBy: registration.usedBy))
        registration.versions.send(version)
    }

    /// Makes every use offer its held documents again, including failing ones.
    ///
    /// - Returns: the number of uses.
    @discardableResult
    func retry() -> Int {
        let listeners = change { fields -> [(EventHub<String>, String)] in
            for (number, use) in fields.uses { fields.uses[number]?.breaker = newBreaker(use.hook) }
            return fields.uses.compactMap { number, use in fields.prepared[number].map { (use.versions, $0.version) } }
        }
        for (versions, version) in listeners { versions.send(version) }
        return listeners.count
    }

    var hasOpenBreaker: Bool { read { $0.uses.values.contains { $0.breaker.opened != nil } } }

    /// Probes each failing use that is due. Called on the supervisor's thread.
    func probe(_ pool: PluginWorkers) {
        for (number, use) in read({ $0.uses }) {
            let due = use.breaker.takeDue()
            guard due.isDue else { continue }
            switch due.sample {
            case .document(let document, let context):
                guard let call = call(number, context) else { continue }
                Task { _ = await withCheckedContinuation { pool.submit(FilterJob(call, use.hook, [document], $0)) } }
            case .conflict(let conflict, let context):
                guard let call = call(number, context) else { continue }
                Task { _ = await withCheckedContinuation { pool.submit(ResolveJob(call, conflict, $0)) } }
            case nil:
                // The sample was too large to be kept: the peer or replicator that holds the document offers it again, and the first such call is the
                // probe.
                if let version = read({ $0.prepared[number]?.version }) { use.versions.send(version) }
            }
        }
    }
}
