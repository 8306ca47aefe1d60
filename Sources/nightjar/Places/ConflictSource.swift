import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import NIOCore

/// Where the commands find conflicts: at a running agent, or in database folders that none holds.
enum ConflictSource: Sendable {
    case agent(AgentClient, databases: [String])
    case folders([Database])

    /// What is asked for: one database, or one collection of it, or everything.
    struct Scope: Sendable {
        var database: String?
        var collection: CollectionName?

        /// - Parameter text: `DB`, `DB.COLLECTION` or `DB.SCOPE.COLLECTION`; nil for all databases.
        init(_ text: String?) throws(AgentError) {
            guard let text else { return }
            let (database, collection) = try DocumentAccess.parse(text)
            self.database = database
            if text.utf8.contains(UInt8(ascii: ".")) { self.collection = collection }
        }

        /// As it is written.
        func name(of database: String) -> String { collection.map { "\(database).\($0)" } ?? database }
    }

    /// Looks for a running agent first, then for the folders `DATA/DB.nightjar`.
    static func find(_ scope: Scope, settings: AgentSettings, group: any EventLoopGroup) async throws -> ConflictSource {
        func chosen(_ names: [String], _ place: String) throws(AgentError) -> [String] {
            guard let wanted = scope.database else { return names }
            guard let found = names.first(where: { $0.utf8.elementsEqual(wanted.utf8) }) else {
                throw AgentError(
                    .notFound, "there is no database \"\(wanted)\" \(place); it has \(names.isEmpty ? "none" : names.joined(separator: ", "))")
            }
            return [found]
        }
        if let client = try AgentClient.find(settings, group: group) {
            let databases = try await client.request("GET", "/api/status")["databases"]?.asArray ?? []
            return .agent(client, databases: try chosen(databases.compactMap { $0["name"]?.asString }, "at the agent on \(client.socket)"))
        }
        let data = settings.data.value
        let names = try chosen(DatabaseFolders.names(in: data), "in \(data), and no agent runs there")
        if names.isEmpty { throw AgentError(.notFound, "there are no databases in \(data), and no agent runs there") }
        var opened: [Database] = []
        do {
            for name in names { opened.append(try Database.open(folder: "\(data)/\(name)\(DatabaseFolders.suffix)", name: name)) }
        } catch {
            for database in opened { database.close() }
            throw error
        }
        return .folders(opened)
    }

    /// Releases the locks.
    func close() {
        if case .folders(let databases) = self { for database in databases { database.close() } }
    }

    /// Pending conflicts first, then the decided ones, the newest first.
    ///
    /// - Parameter limit: of each state and database.
    func list(_ scope: Scope, pendingOnly: Bool, limit: Int) async throws -> [JSONValue] {
        switch self {
        case .agent(let client, let databases):
            var rows: [JSONValue] = []
            for database in databases {
                let state = pendingOnly ? "&state=pending" : ""
                rows += try await Self.rows(client, "?db=\(PercentEncoding.encode(scope.name(of: database)))&limit=\(limit)\(state)")
            }
            return rows
        case .folders(let databases):
            var rows: [JSONValue] = []
            for database in databases {
                let access = try ConflictAccess(database, collection: scope.collection)
                rows += try await access.pending(limit: limit, includeBodies: false)
                if !pendingOnly { rows += try await access.decided(before: nil, limit: limit, includeBodies: false) }
            }
            return rows
        }
    }

    /// The conflict with a number, and those of the document with this id, with all bodies.
    func find(_ text: String, _ scope: Scope) async throws -> [JSONValue] {
        switch self {
        case .agent(let client, let databases):
            var rows: [JSONValue] = []
            for database in databases {
                rows += try await Self.rows(
                    client, "/\(PercentEncoding.encode(text))?db=\(PercentEncoding.encode(scope.name(of: database)))")
            }
            return rows
        case .folders(let databases):
            var rows: [JSONValue] = []
            for database in databases { rows += try await ConflictAccess(database, collection: scope.collection).find(text) }
            return rows
        }
    }

    /// Decided conflicts with all bodies, the newest first, a page at a time.
    ///
    /// - Parameter last: of each database; nil for all.
    func replay(_ scope: Scope, last: Int?, _ each: ([JSONValue]) async throws -> Void) async throws {
        func pages(_ next: (Int64?, Int) async throws -> [JSONValue]) async throws {
            var before: Int64?
            var left = last ?? .max
            while left > 0 {
                let page = try await next(before, min(left, 50))
                guard let oldest = page.last?["number"]?.asInt64 else { return }
                try await each(page)
                left -= page.count
                before = oldest
            }
        }
        switch self {
        case .agent(let client, let databases):
            for database in databases {
                let db = PercentEncoding.encode(scope.name(of: database))
                try await pages { before, limit in
                    try await Self.rows(
                        client, "?db=\(db)&state=decided&bodies=true&limit=\(limit)\(before.map { "&before=\($0)" } ?? "")")
                }
            }
        case .folders(let databases):
            for database in databases {
                let access = try ConflictAccess(database, collection: scope.collection)
                try await pages { before, limit in try await access.decided(before: before, limit: limit, includeBodies: true) }
            }
        }
    }

    private static func rows(_ client: AgentClient, _ rest: String) async throws -> [JSONValue] {
        let answer = try await client.request("GET", "/api/conflicts\(rest)")
        guard let rows = answer.asArray else { throw AgentError(.failed, "the agent's answer is no array: \(answer.text.prefix(200))") }
        return rows
    }
}
