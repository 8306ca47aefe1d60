import Documents
import HTTPServer
import NIOCore

/// `/api/databases/DB/blobs`: what `nightjar blob` uses while an agent runs.
struct BlobRoutes: Sendable {
    let agent: Agent

    var routes: [Route] {
        [
            .get("api/databases/:db/blobs") { request in
                let access = try access(request)
                return Answer.rows { rows in try await access.each { try await rows.write($0) } }
            },
            // Bounded by the store's own limit, max_blob_bytes.
            .post("api/databases/:db/blobs", bodyLimit: .unlimited) { request in
                let access = try access(request)
                var body = request.body
                body.limit = NamedLimit("max_blob_bytes", access.maxBytes)
                var pieces = body.makeAsyncIterator()
                let expected = try request.value(.digest)
                return Answer.json(try await access.put(length: body.declaredLength, expecting: expected) { try await pieces.next() }, status: 201)
            },
            .get("api/databases/:db/blobs/:digest") { request in
                let digest = try request.parameters.require("digest")
                if try request.flag(.facts) { return Answer.json(try await access(request).facts(digest)) }
                let blob = try await access(request).open(digest)
                return .stream(headers: ["Content-Type": "application/octet-stream"], length: Int(clamping: blob.size)) { writer in
                    try await blob.each { try await writer.write($0) }
                }
            },
        ]
    }

    private func access(_ request: HTTPRequest) throws -> BlobAccess {
        let name = try DocumentAccess.parse(try request.parameters.require("db")).database
        guard let database = agent.database(name) else { throw AgentError(.notFound, "there is no database \"\(name)\"") }
        return BlobAccess(database)
    }
}
