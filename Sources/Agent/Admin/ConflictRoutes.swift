import Documents
import DocumentStore
import HTTPServer

/// `/api/conflicts`: decided and pending conflicts, retries, and decisions by hand.
struct ConflictRoutes: Sendable {
    /// `max_body_bytes` of a document, and what surrounds it here; HTTP 413.
    private static let decisionLimit = NamedLimit("max_body_bytes", 64 << 20)

    let agent: Agent

    var routes: [Route] {
        [
            .get("api/conflicts", list),
            .get("api/conflicts/:id") { request in
                let id = try request.parameters.require("id")
                let accesses = try accesses(try request.value(.db))
                let limit = try Self.number(.limit, request).map { Int(clamping: $0) } ?? .max
                return Answer.rows { rows in
                    for access in accesses { try await access.forEachFound(id, limit: limit) { try await rows.write($0) } }
                }
            },
            .post("api/conflicts/:id/resolve", bodyLimit: Self.decisionLimit) { request in
                let id = try request.parameters.require("id")
                let accesses = try accesses(try request.value(.db))
                let wanted: JSONValue
                do { wanted = try JSONValue(parsing: Array(try await request.body.collect().readableBytesView)) } catch let error as JSONError {
                    throw AgentError(.invalid, "the body is not JSON: \(error)")
                }
                let answer = try await ConflictsByHand(accesses, settings: agent.settings, observer: agent.conflictObserver).decide(
                    id, try DecisionByHand(json: wanted))
                // A resolver decides the branches that remain.
                if answer["pending"]?.asBool == true { await agent.retryConflicts() }
                return Answer.json(answer)
            },
            .post("api/conflicts/retry") { _ in
                // For the answer only: an unreadable database is no reason not to retry.
                let count = try? await agent.pendingConflicts()
                await agent.retryConflicts()
                return Answer.json(JSONOutput.object(["ok": .bool(true), "conflicts": count.map { JSONOutput.number($0) } ?? .null]), status: 202)
            },
        ]
    }

    /// Everything, unless the request sets a limit, which applies to each state and database.
    @Sendable private func list(_ request: HTTPRequest) async throws -> HTTPResponse {
        let limit = try Self.number(.limit, request).map { Int(clamping: $0) } ?? .max
        let before = try Self.number(.before, request)
        let includeBodies = try request.flag(.bodies)
        let state = try request.value(.state)
        if let state, state != "pending", state != "decided" {
            throw AgentError(.invalid, "state must be pending or decided, not \"\(state)\"")
        }
        let accesses = try accesses(try request.value(.db))
        return Answer.rows { rows in
            for access in accesses {
                if state != "decided" {
                    try await access.forEachPending(limit: limit, includeBodies: includeBodies) { try await rows.write($0) }
                }
                if state != "pending" {
                    try await access.forEachDecided(before: before, limit: limit, includeBodies: includeBodies) { try await rows.write($0) }
                }
            }
        }
    }

    private static func number(_ key: AdminValue, _ request: HTTPRequest) throws -> Int64? {
        guard let text = try request.value(key) else { return nil }
        guard let number = Int64(text), number >= 0 else { throw AgentError(.invalid, "\(key.rawValue) must be a number, not \"\(text)\"") }
        return number
    }

    /// For one database or collection, or for all databases.
    func accesses(_ name: String?) throws -> [ConflictAccess] {
        guard let name else { return try agent.databases.map { try ConflictAccess($0, settings: agent.settings) } }
        let (database, collection) = try DocumentAccess.parse(name)
        guard let found = agent.database(database) else { throw AgentError(.notFound, "there is no database \"\(database)\"") }
        return [try ConflictAccess(found, collection: name.utf8.contains(UInt8(ascii: ".")) ? collection : nil, settings: agent.settings)]
    }
}
