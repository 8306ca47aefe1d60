import Documents
import DocumentStore
import HTTPServer

/// `/api/databases/DB/check`, `compact` and `backup`: the care of one database.
struct CareRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .post("api/databases/:db/check") { request in Answer.json(DatabaseCare.report(try await database(request).integrity())) },
            .post("api/databases/:db/compact") { request in Answer.json(DatabaseCare.report(try await database(request).compact())) },
            .post("api/databases/:db/backup") { request in
                guard let folder = try request.queryValue("to"), folder.hasPrefix("/") else {
                    throw AgentError(.invalid, "\"to\" names the folder to be made, by its whole path")
                }
                return Answer.json(DatabaseCare.report(try await database(request).backUp(to: folder)), status: 201)
            },
        ]
    }

    private func database(_ request: HTTPRequest) throws -> Database {
        let name = try DocumentAccess.parse(try request.parameters.require("db")).database
        guard let database = agent.database(name) else { throw AgentError(.notFound, "there is no database \"\(name)\"") }
        return database
    }
}

/// What is told of the care of a database.
package enum DatabaseCare {
    package static func report(_ report: IntegrityReport) -> JSONValue {
        JSONOutput.object([
            "sound": .bool(report.isSound), "documents": JSONOutput.number(report.documents), "blobs": JSONOutput.number(report.blobs),
            "file": .array(report.file.map { .string($0) }), "damaged": .array(report.damaged.map { .string($0) }), "more": .bool(report.isCapped),
        ])
    }

    package static func report(_ report: CompactionReport) -> JSONValue {
        JSONOutput.object([
            "blobs_removed": JSONOutput.number(report.blobsRemoved),
            "blob_bytes_freed": JSONOutput.number(report.blobBytesFreed),
            // Nothing refers to them, and they are too new to go.
            "blobs_waiting": JSONOutput.number(report.blobsWaiting),
            "blob_bytes_waiting": JSONOutput.number(report.blobBytesWaiting),
            "blobs_wait_until": JSONOutput.text(report.blobsWaitUntil.map { Timestamp.format($0) }),
            "bodies_removed": JSONOutput.number(report.bodiesRemoved),
            "bytes_freed": JSONOutput.number(report.fileBytesFreed),
        ])
    }

    package static func report(_ facts: BackupFacts) -> JSONValue {
        JSONOutput.object([
            "database": .string(facts.database), "made_at": .string(Timestamp.format(facts.madeAt)), "documents": JSONOutput.number(facts.documents),
            "blobs": JSONOutput.number(facts.blobs), "bytes": JSONOutput.number(Int64(clamping: facts.bytes)),
        ])
    }
}
