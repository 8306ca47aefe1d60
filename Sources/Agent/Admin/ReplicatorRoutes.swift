import Documents
import DocumentStore
import HTTPServer
import Replication

/// `/api/replicators`: how they are, and what an operator does to them.
struct ReplicatorRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .get("api/replicators") { _ in Answer.json(.array(await agent.replicatorReports())) },
            .get("api/replicators/:name") { request in Answer.json(await agent.report(try replicator(request))) },
            .post("api/replicators/:name/start") { request in
                let replicator = try replicator(request)
                let resets = try request.queryValue("reset") == "true"
                if resets, replicator.status.activity != .stopped {
                    // A running one cannot forget its checkpoint on the way: it stops and begins anew, which may take a while.
                    Task {
                        await replicator.stop()
                        await replicator.start(reset: true)
                    }
                } else {
                    await replicator.start(reset: resets)
                }
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
            .post("api/replicators/:name/stop") { request in
                let replicator = try replicator(request)
                // Answered at once; the stop may take as long as the peer's answer to our CLOSE.
                Task { await replicator.stop() }
                return Answer.json(JSONOutput.object(["ok": .bool(true)]), status: 202)
            },
            .get("api/replicators/:name/pending") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.eachPending { page in
                        try await rows.write(
                            page.map { JSONOutput.object(["collection": .string($0.0.description), "id": .string($0.1.text)]) })
                    }
                }
            },
            .get("api/replicators/:name/held") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.eachHeld { page in try await rows.write(page.map { Self.report($0.0, $0.1) }) }
                }
            },
            .get("api/replicators/:name/rejected") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.eachRefused { page in try await rows.write(page.map { Self.report($0) }) }
                }
            },
            .post("api/replicators/:name/retry-rejected") { request in
                let replicator = try replicator(request)
                guard replicator.status.activity != .stopped else {
                    throw AgentError(.conflict, "replicator \"\(replicator.configuration.name)\" is stopped; its next start offers them again")
                }
                let isNow = await replicator.retryRefused()
                return Answer.json(JSONOutput.object(["ok": .bool(true), "now": .bool(isNow)]), status: 202)
            },
        ]
    }

    private static func report(_ refusal: Replicator.Refusal) -> JSONValue {
        JSONOutput.object([
            "collection": .string(refusal.collection.description), "id": .string(refusal.id.text),
            "rev": JSONOutput.text(refusal.revision?.text), "domain": .string(refusal.domain), "status": JSONOutput.number(refusal.code),
            "reason": .string(refusal.reason), "tries": JSONOutput.number(refusal.tries),
            "since": .string(Timestamp.format(refusal.since)),
        ])
    }

    private static func report(_ collection: CollectionName, _ exclusion: Exclusion) -> JSONValue {
        JSONOutput.object([
            "collection": .string(collection.description), "id": .string(exclusion.id.text), "rev": JSONOutput.text(exclusion.revision?.text),
            "direction": .string(exclusion.direction == .push ? "push" : "pull"),
            "plugin": .string(exclusion.plugin), "version": .string(exclusion.version),
            "error": .string(exclusion.error), "tries": JSONOutput.number(exclusion.tries),
            "since": .string(Timestamp.format(exclusion.since)),
        ])
    }

    private func replicator(_ request: HTTPRequest) throws -> Replicator { try agent.replicator(try request.parameters.require("name")) }
}
