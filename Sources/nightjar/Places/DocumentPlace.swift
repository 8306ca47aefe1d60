import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import Glibc
import NIOCore
import Synchronization

/// Where the commands find the documents of a collection: at a running agent, or in a folder that no agent holds.
enum DocumentPlace: Sendable {
    /// The name is `DB` or `DB.SCOPE.COLLECTION`.
    case agent(AgentClient, name: String)
    case folder(DocumentAccess)

    /// What a command does if the database or the collection does not exist.
    enum Absence: Sendable {
        case fails
        /// Creates it and reports that. A running agent's databases are created only by its configuration.
        ///
        /// `check` is called before a database or a collection is created: it throws if nothing of what is to be stored can be.
        case creates(report: @Sendable (String) -> Void, check: Check)
    }

    /// Is given what does not exist, the options of its database, and what asks the database's `validate` plugin; nil if it has none.
    typealias Check = @Sendable (DocumentAccess.Absent, DatabaseOptions, DocumentAccess.FirstJudge?) async throws -> Void

    /// Looks for a running agent first, then for the folder `DATA/DB.nightjar`.
    ///
    /// - Parameter name: `DB`, `DB.COLLECTION` or `DB.SCOPE.COLLECTION`.
    /// - Throws: ``AgentError`` that lists what exists.
    static func find(
        _ name: String, settings: AgentSettings, group: any EventLoopGroup, absence: Absence = .fails
    ) async throws -> DocumentPlace {
        let (database, collection) = try DocumentAccess.parse(name)
        guard !database.isEmpty, !database.utf8.contains(UInt8(ascii: "/")) else {
            throw AgentError(.invalid, "\"\(name)\" is not a database: expected DB, DB.COLLECTION or DB.SCOPE.COLLECTION")
        }
        if let client = try AgentClient.find(settings, group: group) {
            try await check(database, collection, at: client)
            return .agent(client, name: collection.isDefault ? database : "\(database).\(collection)")
        }
        return .folder(try await open(database, collection, settings, absence))
    }

    /// Called before anything is read or sent, so that a wrong name is reported at once.
    private static func check(_ database: String, _ collection: CollectionName, at client: AgentClient) async throws {
        let databases = try await client.request("GET", "/api/status")["databases"]?.asArray ?? []
        guard let found = databases.first(where: { $0["name"]?.asString.map { $0.utf8.elementsEqual(database.utf8) } ?? false }) else {
            throw AgentError(
                .notFound,
                "the agent on \(client.socket) has no database \"\(database)\"; it has \(listed(databases.compactMap { $0["name"]?.asString }))")
        }
        let names = found["collections"]?.asArray?.compactMap { $0["name"]?.asString } ?? []
        guard names.contains(collection.description) else {
            throw AgentError(.notFound, "database \"\(database)\" has no collection \(collection); it has \(listed(names))")
        }
    }

    private static func open(
        _ name: String, _ collection: CollectionName, _ settings: AgentSettings, _ absence: Absence
    ) async throws -> DocumentAccess {
        let data = settings.data.value
        let folder = "\(data)/\(name).nightjar"
        let exists = DatabaseFolders.exists(folder)
        let wanted = settings.database(named: name)
        let options = UnservedDatabase.options(wanted, settings)
        if !exists {
            try DatabaseFolders.checkAccess(data)
            guard case .creates(_, let check) = absence else {
                throw AgentError(
                    .notFound,
                    "there is no database \"\(name)\" in \(data), and no agent runs there; it holds \(listed(DatabaseFolders.names(in: data)))")
            }
            let absent = DocumentAccess.Absent.database(name)
            try await check(absent, options, FolderValidation.first(settings, of: absent, collection, nil))
            try Folders.make(data)
        }
        let database = try UnservedDatabase.open(name, in: folder, settings)
        if case .creates(let report, let check) = absence {
            if !exists { report("created database \(folder)") }
            // As the agent would at its start.
            for configured in wanted?.collections ?? [] { _ = try database.createCollection(CollectionName(configured.value)) }
            if exists, database.collection(collection) == nil {
                let absent = DocumentAccess.Absent.collection(collection, database: name)
                do { try await check(absent, options, FolderValidation.first(settings, of: absent, collection, database)) } catch {
                    database.close()
                    throw error
                }
            }
        } else if database.collection(collection) == nil {
            let names = database.collections.map(\.name.description)
            database.close()
            throw AgentError(.notFound, "database \"\(name)\" has no collection \(collection); it has \(listed(names))")
        }
        return try complete(database, collection, settings, absence)
    }

    /// Adds the resolver and validation that an agent would use.
    private static func complete(
        _ database: Database, _ collection: CollectionName, _ settings: AgentSettings, _ absence: Absence
    ) throws -> DocumentAccess {
        if case .creates(let report, _) = absence, database.collection(collection) == nil {
            _ = try database.createCollection(collection)
            report("created collection \(collection) in \(database.folder)")
        }
        var access = try DocumentAccess(database, collection: collection)
        access.saves = FolderResolver.saves(settings, database, access.collection)
        access.saveDeciderFor = { [collection = access.collection] in
            FolderResolver.saves(by: PluginReference(plugin: $0), settings, database, collection)
        }
        access.validation = FolderValidation.of(settings, database, access.collection)
        access.elsewhere = { try complete(database, $0, settings, absence) }
        return access
    }

    private static func listed(_ names: [String]) -> String { names.isEmpty ? "none" : names.joined(separator: ", ") }

    /// All collections of the database.
    func collections() async throws -> [CollectionName] {
        switch self {
        case .agent(let client, let name):
            let database = try DocumentAccess.parse(name).database
            let all = try await client.request("GET", "/api/status")["databases"]?.asArray ?? []
            let found = all.first { $0["name"]?.asString.map { $0.utf8.elementsEqual(database.utf8) } ?? false }
            return try (found?["collections"]?.asArray ?? []).compactMap { $0["name"]?.asString }.map { try CollectionName(parsing: $0) }
        case .folder(let access): return access.database.collections.map(\.name)
        }
    }

    /// Another collection of the same database.
    func place(of collection: CollectionName) throws -> DocumentPlace {
        switch self {
        case .agent(let client, let name): .agent(client, name: "\(try DocumentAccess.parse(name).database).\(collection)")
        case .folder(let access): .folder(try access.collection.name == collection ? access : DocumentAccess(access.database, collection: collection))
        }
    }

    /// Releases a folder's lock.
    func close() {
        if case .folder(let access) = self { access.database.close() }
    }

    // MARK: - One document

    /// A document that was saved or deleted.
    struct Saved: Sendable {
        var id: String
        var revision: String

        var json: JSONValue {
            JSONOutput.object(["ok": .bool(true), "id": .string(id), "rev": .string(revision)])
        }
    }

    /// The document's JSON.
    ///
    /// - Throws: ``AgentError`` of kind notFound if there is none, or it is deleted.
    func get(_ id: String, withVersion: Bool = false) async throws -> [UInt8] {
        switch self {
        case .agent(let client, let name):
            var json = try await client.bytes("GET", try Self.document(name, id) + (withVersion ? "?cv=true" : ""))
            if json.last == UInt8(ascii: "\n") { json.removeLast() }
            return json
        case .folder(let access):
            guard let json = try await access.get(id, withVersion: withVersion) else { throw AgentError(.notFound, "there is no document \"\(id)\"") }
            return json
        }
    }

    /// Saves a document; `_rev` in it names the revision that it follows.
    ///
    /// - Parameter onConflict: what happens if the document is at another revision; nil for what the database's configuration says.
    func put(_ id: String, _ json: [UInt8], onConflict: String? = nil) async throws -> Saved {
        switch self {
        case .agent(let client, let name):
            let query = onConflict.map { "?on_conflict=\(PercentEncoding.encode($0))" } ?? ""
            return try saved(id, try await client.request("PUT", try Self.document(name, id) + query, body: json))
        case .folder(let access):
            let saved = try await access.put(id, json, onConflict: try onConflict.map { text throws(AgentError) in try SaveConflict(text) } ?? .resolve)
            return Saved(id: id, revision: saved.revision.text)
        }
    }

    /// Deletes a document.
    ///
    /// - Parameter revision: must be the current one; nil for whichever that is.
    func remove(_ id: String, revision: String?) async throws -> Saved {
        switch self {
        case .agent(let client, let name):
            let query = revision.map { "?rev=\(PercentEncoding.encode($0))" } ?? ""
            return try saved(id, try await client.request("DELETE", try Self.document(name, id) + query))
        case .folder(let access): return Saved(id: id, revision: try await access.remove(id, revision: revision).revision.text)
        }
    }

    /// Removes a document without a tombstone.
    func purge(_ id: String) async throws {
        switch self {
        case .agent(let client, let name):
            _ = try Self.document(name, id)
            _ = try await client.request("POST", "/api/databases/\(PercentEncoding.encode(name))/purge/\(PercentEncoding.encode(id))")
        case .folder(let access): try await access.purge(id)
        }
    }

    private func saved(_ id: String, _ answer: JSONValue) throws -> Saved {
        guard let revision = answer["rev"]?.asString else { throw AgentError(.failed, "the agent's answer names no revision: \(answer.text)") }
        return Saved(id: id, revision: revision)
    }

    /// Without an id, the path of the list of all documents.
    private static func path(_ name: String, _ id: String? = nil) -> String {
        "/api/databases/\(PercentEncoding.encode(name))/documents" + (id.map { "/\(PercentEncoding.encode($0))" } ?? "")
    }

    /// The path of one document.
    private static func document(_ name: String, _ id: String) throws(AgentError) -> String {
        do { return path(name, try DocumentID(id).text) } catch { throw AgentError(.invalid, "\(error)") }
    }

    // MARK: - All documents

    /// A document as `doc list` shows it, one line of JSON: `{"id", "rev", "deleted", "sequence"}`.
    func list(includesDeleted: Bool, _ each: @escaping @Sendable ([UInt8]) throws -> Void) async throws {
        switch self {
        case .agent(let client, let name):
            try await client.rows(Self.path(name) + "?deleted=\(includesDeleted)", each)
        case .folder(let access):
            var since: SequenceNumber = 0
            while true {
                let rows = try await access.page(since: since, limit: 1_000, includesDeleted: includesDeleted, includesBodies: false)
                guard let last = rows.last else { return }
                since = last.sequence
                for row in rows { try each(DocumentLines.summary(row).serialize()) }
            }
        }
    }

    /// The most recently changed documents, oldest change first, including tombstones.
    func last(_ count: Int) async throws -> [[UInt8]] {
        switch self {
        case .agent(let client, let name):
            let bytes = try await client.bytes("GET", "/api/databases/\(PercentEncoding.encode(name))/last?count=\(count)")
            return bytes.split(separator: UInt8(ascii: "\n")).map { Array($0) }
        case .folder(let access):
            return try await access.last(count).map {
                DocumentAccess.json(id: $0.id, revision: $0.revision, isDeleted: $0.isDeleted, body: $0.body ?? [])
            }
        }
    }

    /// Documents that the sync function could not put into channels: each as `{"id", "rev", "plugin", "version", "error"}`.
    func unrouted(_ each: @escaping @Sendable (JSONValue) throws -> Void) async throws {
        switch self {
        case .agent(let client, let name):
            try await client.rows("/api/databases/\(PercentEncoding.encode(name))/unrouted") { try each(try JSONValue(stored: $0)) }
        case .folder(let access): try await access.forEachUnrouted { for row in $0 { try each(row) } }
        }
    }

    /// Every document as a line of JSON, in pieces that may split lines.
    ///
    /// - Parameters:
    ///   - namesCollection: whether each line names its collection.
    ///   - unreadable: called for each part that cannot be read; all others are exported.
    func export(
        includesDeleted: Bool, namesCollection: Bool = false, _ write: @escaping @Sendable (ByteBuffer) throws -> Void, unreadable: @escaping @Sendable (String) -> Void
    ) async throws {
        switch self {
        case .agent(let client, let name):
            let sorter = ExportLines.Sorter()
            let isEnd = Atomic(false)
            do {
                try await client.receive("/api/databases/\(PercentEncoding.encode(name))/export?deleted=\(includesDeleted)&collection_names=\(namesCollection)") { piece in
                    let (documents, messages) = sorter.take(piece)
                    if documents.readableBytes > 0 { try write(documents) }
                    for message in messages {
                        if let message { unreadable(message) } else { isEnd.store(true, ordering: .relaxed) }
                    }
                }
            } catch {
                // An incomplete export is recognised only by its last line.
                guard isEnd.load(ordering: .relaxed) else { throw error }
            }
        case .folder(let access):
            try await access.export(includesDeleted: includesDeleted, namesCollection: namesCollection) {
                try write($0)
            } unreadable: {
                unreadable($0.text)
            }
        }
    }

    /// Stores lines of JSON.
    ///
    /// - Parameters:
    ///   - source: the file's name; see ``DocumentAccess/ImportCounts/init(source:after:)``.
    ///   - lines: the number of lines of the same import that were stored earlier.
    ///   - withoutBlobs: whether to store documents whose blobs are missing.
    ///   - next: the next bytes, nil at the end.
    func importLines(
        source: String?, after lines: Int = 0, withoutBlobs: Bool = false, _ next: @escaping @Sendable () throws -> ByteBuffer?
    ) async throws -> DocumentAccess.ImportCounts {
        switch self {
        case .agent(let client, let name):
            let query = "?after=\(lines)&missing_blobs=\(withoutBlobs)" + (source.map { "&source=\(PercentEncoding.encode($0))" } ?? "")
            let broken =
                source == nil
                ? "what was stored until then is stored, and how much that is, nobody can tell; lines without _id are stored twice if you repeat the import"
                : "what was stored until then is stored, and how much that is, nobody can tell; import the whole file again once the agent runs: what is stored stays as it is"
            return .init(try await client.send("/api/databases/\(PercentEncoding.encode(name))/import\(query)", broken: broken) { try next() })
        case .folder(var access):
            access.importsWithoutBlobs = withoutBlobs
            return try await access.importAll(source: source, after: lines) { try next() }
        }
    }
}
