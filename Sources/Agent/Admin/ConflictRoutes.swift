import Documents
import DocumentStore
import HTTPServer

/// `/api/conflicts`: decided and pending conflicts, and another try.
struct ConflictRoutes: Sendable {
    let agent: Agent

    /// Rows of each state and database unless the request says otherwise.
    static let usualRows = 100

    var routes: [Route] {
        [
            .get("api/conflicts", list),
            .get("api/conflicts/:id") { request in
                let id = try request.parameters.require("id")
                var found: [JSONValue] = []
                for access in try accesses(try request.queryValue("db")) { found += try await access.find(id) }
                return Answer.json(.array(found))
            },
            .post("api/conflicts/retry") { _ in
                await agent.retryConflicts()
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
        ]
    }

    @Sendable private func list(_ request: HTTPRequest) async throws -> HTTPResponse {
        func number(_ key: String) throws -> Int64? {
            guard let text = try request.queryValue(key) else { return nil }
            guard let number = Int64(text), number >= 0 else { throw AgentError(.invalid, "\(key) is a number, not \"\(text)\"") }
            return number
        }
        let limit = Int(clamping: try number("limit") ?? Int64(Self.usualRows))
        let before = try number("before")
        let includeBodies = try request.queryValue("bodies") == "true"
        let state = try request.queryValue("state")
        if let state, state != "pending", state != "decided" {
            throw AgentError(.invalid, "state is pending or decided, not \"\(state)\"")
        }
        var rows: [JSONValue] = []
        for access in try accesses(try request.queryValue("db")) {
            if state != "decided" { rows += try await access.pending(limit: limit, includeBodies: includeBodies) }
            if state != "pending" { rows += try await access.decided(before: before, limit: limit, includeBodies: includeBodies) }
        }
        return Answer.json(.array(rows))
    }

    /// Of one database or collection, or of all databases.
    private func accesses(_ name: String?) throws -> [ConflictAccess] {
        guard let name else { return try agent.databases.map { try ConflictAccess($0) } }
        let (database, collection) = try DocumentAccess.parse(name)
        guard let found = agent.database(database) else { throw AgentError(.notFound, "there is no database \"\(database)\"") }
        return [try ConflictAccess(found, collection: name.utf8.contains(UInt8(ascii: ".")) ? collection : nil)]
    }
}
