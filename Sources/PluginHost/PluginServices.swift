import Documents
import Interfaces
import LuaRuntime

/// What the agent lends to plugins. Called on a plugin thread, which waits: an implementation may block for a read of
/// the database, not for a network.
package protocol PluginServices: Sendable {
    /// `nightjar.get(collection?, id)`; `collection` is nil for the collection of the call. Nil where there is no such document.
    /// The error's text becomes the Lua error.
    func document(database: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument?
    /// `nightjar.metrics.count`: `value` is finite and not negative.
    func count(plugin: String, name: String, value: Double, labels: [(String, String)])
    /// `nightjar.metrics.gauge`.
    func gauge(plugin: String, name: String, value: Double, labels: [(String, String)])
    /// `nightjar.state[key]`; `.missing` where nothing is stored.
    func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue
    /// `nightjar.state[key] = value`; `.missing` removes.
    func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal)
}

/// A service that cannot be had; its text is what the plugin's author sees.
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
