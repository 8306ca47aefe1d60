import LuaRuntime
import Synchronization

/// `nightjar.state` of a test or a trial: in memory, with the limits of the real one.
final class ScratchState: Sendable {
    private let table = Mutex(StateTable())
    private let limits = PluginHostLimits()

    func read(_ key: String) -> LuaValue { table.withLock { $0[key] } }

    func write(_ key: String, _ value: LuaValue) throws(LuaHostRefusal) {
        let refusal = table.withLock { $0.set(key, value, limits) }
        if let refusal { throw LuaHostRefusal(refusal) }
    }
}

/// The names and values of one plugin, within limits.
struct StateTable: Sendable {
    private(set) var entries: [String: LuaValue] = [:]
    private var sizes: [String: Int] = [:]
    private(set) var bytes = 0

    subscript(key: String) -> LuaValue { entries[key] ?? .missing }

    /// Sets or, with `.missing`, removes; the reason if a limit forbids it.
    mutating func set(_ key: String, _ value: LuaValue, _ limits: PluginHostLimits) -> String? {
        if value == .missing {
            bytes -= sizes.removeValue(forKey: key) ?? 0
            entries[key] = nil
            return nil
        }
        let keyBytes = key.utf8.count
        guard keyBytes <= limits.stateKeyBytes else { return "the name has \(keyBytes) bytes, more than state key = \(limits.stateKeyBytes)" }
        let valueBytes = value.jsonBytes.count
        guard valueBytes <= limits.stateValueBytes else {
            return "the value of \"\(key)\" has \(valueBytes) bytes as JSON, more than state value = \(limits.stateValueBytes)"
        }
        guard sizes[key] != nil || entries.count < limits.stateEntries else {
            return "there are state entries = \(limits.stateEntries) names already; set one to nil before adding \"\(key)\""
        }
        let new = bytes - (sizes[key] ?? 0) + keyBytes + valueBytes
        guard new <= limits.stateBytes else {
            return "with \"\(key)\" the plugin's state has \(new) bytes, more than state bytes = \(limits.stateBytes)"
        }
        bytes = new
        sizes[key] = keyBytes + valueBytes
        entries[key] = value
        return nil
    }
}
