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
            .get("api/replicators/:name/orphaned") { request in
                let replicator = try replicator(request)
                return Answer.rows { rows in
                    try await replicator.eachOrphaned { page in try await rows.write(page.map { Self.orphan($0.0, $0.1) }) }
                }
            },
        ]
    }

    private static func orphan(_ collection: CollectionName, _ row: Exclusion) -> JSONValue {
        JSONOutput.object([
            "collection": .string(collection.description), "id": .string(row.id.text), "rev": JSONOutput.text(row.revision?.text),
            "since": .string(Timestamp.format(row.since)), "plugin": .string(row.plugin), "version": .string(row.version),
            "reason": .string(row.error),
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
