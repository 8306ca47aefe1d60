import Agent
import Documents
import DocumentStore
import Glibc
import Interfaces
import PluginHost
import Replication

/// What `nightjar.get` returns in a trial run that names a database: its documents, from a running agent or a folder.
struct PlaceServices: PluginServices {
    private let place: DocumentPlace
    private let collections: [CollectionName]

    /// - Parameter place: must not be closed before the last call.
    init(_ place: DocumentPlace) async throws {
        self.place = place
        switch place {
        case .folder(let access): collections = access.database.collections.map(\.name)
        case .agent(let client, let name):
            let database = try DocumentAccess.parse(name).database
            let found = try await client.request("GET", "/api/status")["databases"]?.asArray?.first {
                $0["name"]?.asString?.utf8.elementsEqual(database.utf8) == true
            }
            collections = found?["collections"]?.asArray?.compactMap { row in
                row["name"]?.asString.flatMap { try? CollectionName(parsing: $0) }
            } ?? []
        }
    }

    func document(database: String, collection: CollectionName, id: DocumentID) throws(PluginServiceRefusal) -> PolicyDocument? {
        guard collections.contains(collection) else {
            throw PluginServiceRefusal("database \"\(database)\" has no collection \(collection)")
        }
        switch place {
        case .folder(let access):
            let services = DatabaseServices { _ in access.database }
            return try services.document(database: database, collection: collection, id: id)
        case .agent(let client, _):
            let place = DocumentPlace.agent(client, name: collection.isDefault ? database : "\(database).\(collection)")
            switch Self.wait({ try await place.get(id.text) }) {
            case .success(let json): return try Self.document(json)
            case .failure(let error as AgentError) where error.kind == .notFound: return nil
            case .failure(let error): throw PluginServiceRefusal("\(error)")
            }
        }
    }

    private static func document(_ json: [UInt8]) throws(PluginServiceRefusal) -> PolicyDocument {
        do {
            guard case .object(var object) = try JSONValue(stored: json), let id = object["_id"]?.asString, let revision = object["_rev"]?.asString
            else { throw PluginServiceRefusal("the agent's answer is not a document") }
            for name in ["_id", "_rev", "_deleted"] { object[name] = nil }
            return PolicyDocument(
                id: try DocumentID(id), revision: try RevisionID(known: revision), isDeleted: false, body: JSONValue.object(object).serialize())
        } catch let refusal as PluginServiceRefusal {
            throw refusal
        } catch {
            throw PluginServiceRefusal("the agent's answer is not a document: \(error)")
        }
    }

    /// Blocks the plugin's own thread, on which no task runs. A request has a timeout.
    private static func wait<T: Sendable>(_ work: @escaping @Sendable () async throws -> T) -> Result<T, any Error> {
        let answer = Answer<T>()
        Task {
            do { answer.give(.success(try await work())) } catch { answer.give(.failure(error)) }
        }
        return answer.take()
    }

    /// Unchecked: `result` is written before the semaphore is signalled and read after it.
    private final class Answer<T: Sendable>: @unchecked Sendable {
        private let given = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        private var result: Result<T, any Error> = .failure(PluginServiceRefusal("no answer"))

        init() { sem_init(given, 0, 0) }

        deinit {
            sem_destroy(given)
            given.deallocate()
        }

        func give(_ result: Result<T, any Error>) {
            self.result = result
            sem_post(given)
        }

        func take() -> Result<T, any Error> {
            while sem_wait(given) != 0 {}
            return result
        }
    }
}
