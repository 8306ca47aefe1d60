import Documents
import Interfaces
import LuaRuntime

/// What the agent provides to plugins. Called on a plugin's thread, which waits: an implementation may block on a read from the
/// database, but not on a network.
package protocol PluginServices: Sendable {
    /// `nightjar.get(collection?, id)`; if `collection` is nil in Lua, the call's own collection is used. Nil if there is no such
    /// document. The error's text becomes the Lua error.
    func document(database: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument?
    /// `nightjar.metrics.count`: `value` is finite and non-negative.
    func count(plugin: String, name: String, value: Double, labels: [(String, String)])
    /// `nightjar.metrics.gauge`.
    func gauge(plugin: String, name: String, value: Double, labels: [(String, String)])
    /// `nightjar.state[key]`; `.missing` if nothing is stored.
    func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue
    /// `nightjar.state[key] = value`; `.missing` removes.
    func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal)
}

/// A service that is not available; the plugin's author sees its text.
package struct PluginServiceRefusal: Error, Sendable, Equatable {
    package var message: String
    package init(_ message: String) { self.message = message }
}

extension PluginServices {
    package func document(database: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
        throw PluginServiceRefusal("get is not available here: there is no database")
    }
    package func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {}
    package func gauge(plugin: String, name: String, value: Double, labels: [(String, String)]) {}
    package func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
        throw PluginServiceRefusal("state is not available here: there is no database")
    }
    package func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) {
        throw PluginServiceRefusal("state is not available here: there is no database")
    }
}

/// No database and no metrics, for checks and trial runs.
package struct NoPluginServices: PluginServices {
    package init() {}
}
