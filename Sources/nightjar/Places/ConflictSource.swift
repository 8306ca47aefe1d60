import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import NIOCore
import Synchronization

/// Where the commands find conflicts: at a running agent, or in database folders that no agent holds.
enum ConflictSource: Sendable {
    case agent(AgentClient, databases: [String])
    case folders([Database], settings: AgentSettings)

    /// The scope of a request: one database, one of its collections, or everything.
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

        /// The form in which the user writes it.
        func name(of database: String) -> String { collection.map { "\(database).\($0)" } ?? database }
    }

    /// Looks for a running agent first, then for folders `DATA/DB.nightjar`.
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
        try DatabaseFolders.checkAccess(data)
        let names = try chosen(DatabaseFolders.names(in: data), "in \(data), and no agent runs there")
        if names.isEmpty { throw AgentError(.notFound, "there are no databases in \(data), and no agent runs there") }
        var opened: [Database] = []
        do {
            for name in names { opened.append(try UnservedDatabase.open(name, in: "\(data)/\(name)\(DatabaseFolders.suffix)", settings)) }
        } catch {
            for database in opened { database.close() }
            throw error
        }
        return .folders(opened, settings: settings)
    }

    /// Releases the locks.
    func close() {
        if case .folders(let databases, _) = self { for database in databases { database.close() } }
    }

    /// Conflicts, and whether a limit left some out.
    struct Rows: Sendable {
        var rows: [JSONValue] = []
        var isCut = false
        private let limit: Int
        private var counts: [String: Int] = [:]

        init(limit: Int) { self.limit = limit }

        /// - Parameter kind: what the limit counts.
        mutating func add(_ row: JSONValue, kind: String) {
            counts[kind, default: 0] += 1
            if counts[kind, default: 0] > limit { isCut = true } else { rows.append(row) }
        }
    }

    /// Pending conflicts first, then the decided ones, newest first.
    ///
    /// - Parameter limit: for each state and database.
    func list(_ scope: Scope, pendingOnly: Bool, limit: Int) async throws -> Rows {
        let found = Mutex(Rows(limit: limit))
        @Sendable func add(_ row: JSONValue, _ database: String) {
            found.withLock { $0.add(row, kind: "\(row["state"]?.asString ?? "") \(database)") }
        }
        // One row more than requested shows whether there are more.
        switch self {
        case .agent(let client, let databases):
            for database in databases {
                let state = pendingOnly ? "&state=pending" : ""
                let query = "?db=\(PercentEncoding.encode(scope.name(of: database)))&limit=\(limit + 1)\(state)"
                try await client.rows("/api/conflicts\(query)") { add(try JSONValue(stored: $0), database) }
            }
        case .folders(let databases, let settings):
            for database in databases {
                let access = try ConflictAccess(database, collection: scope.collection, settings: settings)
                try await access.forEachPending(limit: limit + 1, includeBodies: false) { for row in $0 { add(row, database.name) } }
                guard !pendingOnly else { continue }
                try await access.forEachDecided(limit: limit + 1, includeBodies: false) { for row in $0 { add(row, database.name) } }
            }
        }
        return found.withLock { $0 }
    }

    /// The conflict with this number, or those of the document with this id, with all bodies.
    ///
    /// - Parameter limit: how many decided conflicts of the document, in each database.
    func find(_ text: String, _ scope: Scope, limit: Int) async throws -> Rows {
        let found = Mutex(Rows(limit: limit))
        @Sendable func add(_ row: JSONValue, _ database: String) {
            // The conflict with this number is always included.
            let isNumbered = row["number"]?.asInt64.map { "\($0)" == text } ?? true
            found.withLock { $0.add(row, kind: isNumbered ? "\(row.text)" : database) }
        }
        switch self {
        case .agent(let client, let databases):
            for database in databases {
                let query = "?db=\(PercentEncoding.encode(scope.name(of: database)))&limit=\(limit + 1)"
                try await client.rows("/api/conflicts/\(PercentEncoding.encode(text))\(query)") { add(try JSONValue(stored: $0), database) }
            }
        case .folders(let databases, let settings):
            for database in databases {
                let access = try ConflictAccess(database, collection: scope.collection, settings: settings)
                try await access.forEachFound(text, limit: limit + 1) { for row in $0 { add(row, database.name) } }
            }
        }
        return found.withLock { $0 }
    }

    /// Ends a pending conflict with a person's decision.
    func decide(_ id: String, _ scope: Scope, _ decision: DecisionByHand, _ settings: AgentSettings) async throws -> JSONValue {
        switch self {
        case .agent(let client, _):
            let db = scope.database.map { "?db=\(PercentEncoding.encode(scope.name(of: $0)))" } ?? ""
            return try await client.request("POST", "/api/conflicts/\(PercentEncoding.encode(id))/resolve\(db)", body: decision.json.serialize())
        case .folders(let databases, _):
            let accesses = try databases.map { try ConflictAccess($0, collection: scope.collection, settings: settings) }
            return try await ConflictsByHand(accesses, settings: settings).decide(id, decision)
        }
    }

    /// Decided conflicts with all bodies, newest first, one page at a time.
    ///
    /// - Parameter last: how many for each database; nil for all.
    func replay(_ scope: Scope, last: Int?, _ each: ([JSONValue]) async throws -> Void) async throws {
        switch self {
        case .agent(let client, let databases):
            for database in databases {
                let db = PercentEncoding.encode(scope.name(of: database))
                var before: Int64?
                var left = last ?? .max
                while left > 0 {
                    let page = Mutex([JSONValue]())
                    let start = before.map { "&before=\($0)" } ?? ""
                    try await client.rows("/api/conflicts?db=\(db)&state=decided&bodies=true&limit=\(min(left, 50))\(start)") { row in
                        let row = try JSONValue(stored: row)
                        page.withLock { $0.append(row) }
                    }
                    let rows = page.withLock { $0 }
                    guard let oldest = rows.last?["number"]?.asInt64 else { break }
                    try await each(rows)
                    left -= rows.count
                    before = oldest
                }
            }
        case .folders(let databases, let settings):
            for database in databases {
                let access = try ConflictAccess(database, collection: scope.collection, settings: settings)
                try await access.forEachDecided(limit: last ?? .max, includeBodies: true, each)
            }
        }
    }
}
