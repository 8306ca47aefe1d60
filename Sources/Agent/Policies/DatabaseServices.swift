import Documents
import DocumentStore
import PluginHost
import Replication

/// What plugins may ask of the agent: a look at a document.
struct DatabaseServices: PluginServices {
    let database: @Sendable (String) -> Database?

    init(_ database: @escaping @Sendable (String) -> Database?) { self.database = database }

    func document(database name: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
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
