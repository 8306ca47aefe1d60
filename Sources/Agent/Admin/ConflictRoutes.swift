import Documents
import DocumentStore
import Encodings
import Hummingbird

/// `/api/conflicts`: decided and pending conflicts, and another try.
struct ConflictRoutes: Sendable {
    let agent: Agent

    /// Rows of each state and database unless the request says otherwise.
    static let usualRows = 100

    func add(to router: Router<BasicRequestContext>) {
        router.get("api/conflicts") { request, _ in
            let query = request.uri.queryParameters
            func number(_ key: Substring) throws -> Int64? {
                guard let text = query[key] else { return nil }
                guard let number = Int64(text), number >= 0 else { throw AgentError(.invalid, "\(key) is a number, not \"\(text)\"") }
                return number
            }
            let limit = Int(clamping: try number("limit") ?? Int64(Self.usualRows))
            let before = try number("before")
            let includeBodies = query["bodies"] == "true"
            let state = query["state"]
            if let state, state != "pending", state != "decided" {
                throw AgentError(.invalid, "state is pending or decided, not \"\(state)\"")
            }
            var rows: [JSONValue] = []
            for access in try accesses(query["db"].map(String.init)) {
                if state != "decided" { rows += try await access.pending(limit: limit, includeBodies: includeBodies) }
                if state != "pending" { rows += try await access.decided(before: before, limit: limit, includeBodies: includeBodies) }
            }
            return Answer.json(.array(rows))
        }
        router.get("api/conflicts/:id") { request, context in
            let id = PercentEncoding.decode(try context.parameters.require("id"))
            var found: [JSONValue] = []
            for access in try accesses(request.uri.queryParameters["db"].map(String.init)) { found += try await access.find(id) }
            return Answer.json(.array(found))
        }
        router.post("api/conflicts/retry") { _, _ in
            await agent.retryConflicts()
            return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: .accepted)
        }
    }

    /// Of one database or collection, or of all databases.
    private func accesses(_ name: String?) throws -> [ConflictAccess] {
        guard let name else { return try agent.databases.map { try ConflictAccess($0) } }
        let (database, collection) = try DocumentAccess.parse(name)
        guard let found = agent.database(database) else { throw AgentError(.notFound, "there is no database \"\(database)\"") }
        return [try ConflictAccess(found, collection: name.utf8.contains(UInt8(ascii: ".")) ? collection : nil)]
    }
}
