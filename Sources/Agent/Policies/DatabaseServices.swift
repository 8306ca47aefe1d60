import Documents
import DocumentStore
import Interfaces
import LuaRuntime
import PluginHost
import Replication

/// What plugins may use of the agent: reading a document, their own small state, their metrics.
package struct DatabaseServices: PluginServices {
    let database: @Sendable (String) -> Database?
    /// Nil if plugins have no state: outside an agent.
    let states: PluginStateFiles?
    let meters: PluginMeters?

    /// For commands on databases that no agent has open: plugins have no state there.
    package init(_ database: @escaping @Sendable (String) -> Database?) { self.init(states: nil, database) }

    init(states: PluginStateFiles?, meters: PluginMeters? = nil, _ database: @escaping @Sendable (String) -> Database?) {
        self.states = states
        self.meters = meters
        self.database = database
    }

    package func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {
        meters?.count(plugin: plugin, name: name, value: value, labels: labels)
    }

    package func gauge(plugin: String, name: String, value: Double, labels: [(String, String)]) {
        meters?.gauge(plugin: plugin, name: name, value: value, labels: labels)
    }

    package func readState(plugin: String, key: String) throws(PluginServiceRefusal) -> LuaValue {
        guard let states else { throw PluginServiceRefusal("state is not available here: no agent is running") }
        return try states.read(plugin: plugin, key: key)
    }

    package func writeState(plugin: String, key: String, value: LuaValue) throws(PluginServiceRefusal) {
        guard let states else { throw PluginServiceRefusal("state is not available here: no agent is running") }
        try states.write(plugin: plugin, key: key, value: value)
    }

    package func document(database name: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
        guard let database = database(name) else { throw PluginServiceRefusal("there is no database \"\(name)\"") }
        guard let found = database.collection(collection) else {
            throw PluginServiceRefusal("database \"\(name)\" has no collection \(collection)")
        }
        let document: StoredDocument?
        do { document = try database.readNow { try $0.document(found, id) } } catch { throw PluginServiceRefusal("\(error)") }
        guard let document, !document.isDeleted else { return nil }
        return PolicyDocument(id: document.id, revision: document.revision, isDeleted: false, body: document.body)
    }
}
