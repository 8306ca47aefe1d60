import Documents
import DocumentStore
import Encodings
import Hummingbird
import NIOCore

/// Documents over the admin API: what `nightjar doc`, `import` and `export` use while an agent runs.
struct DocumentRoutes: Sendable {
    let agent: Agent

    func add(to router: Router<BasicRequestContext>) {
        router.get("api/databases/:db/documents") { request, context in
            try await list(access(context), includesDeleted: request.uri.queryParameters["deleted"] == "true")
        }
        router.get("api/databases/:db/documents/:id") { _, context in
            guard let json = try await access(context).get(try id(context)) else {
                throw AgentError(.notFound, "there is no document \"\(try id(context))\"")
            }
            return Answer.json(bytes: json + [UInt8(ascii: "\n")])
        }
        router.put("api/databases/:db/documents/:id") { request, context in
            let body = try await request.body.collect(upTo: StoreLimits.maxBodyBytes + 4096)
            let saved = try await access(context).put(
                try id(context), Array(body.readableBytesView), parent: request.uri.queryParameters["rev"].map(String.init))
            return answer(try id(context), saved, .created)
        }
        router.delete("api/databases/:db/documents/:id") { request, context in
            let saved = try await access(context).remove(
                try id(context), revision: request.uri.queryParameters["rev"].map(String.init))
            return answer(try id(context), saved, .ok)
        }
        router.get("api/databases/:db/export") { request, context in
            let access = try access(context)
            let includesDeleted = request.uri.queryParameters["deleted"] == "true"
            return Response(
                status: .ok, headers: [.contentType: "application/x-ndjson"],
                body: ResponseBody { writer in
                    var since: SequenceNumber = 0
                    while true {
                        let rows = try await access.page(since: since, limit: 500, includesDeleted: includesDeleted, includesBodies: true)
                        guard let last = rows.last else { break }
                        since = last.sequence
                        var buffer = ByteBuffer()
                        for row in rows { DocumentLines.append(row, to: &buffer) }
                        try await writer.write(buffer)
                    }
                    try await writer.finish(nil)
                })
        }
        router.get("api/databases/:db/last") { request, context in
            let count = request.uri.queryParameters["count"].flatMap { Int($0) } ?? 100
            guard (1...DocumentAccess.maximumLast).contains(count) else {
                throw AgentError(.invalid, "count is 1 to \(DocumentAccess.maximumLast), not \(count)")
            }
            var buffer = ByteBuffer()
            for row in try await access(context).last(count) { DocumentLines.append(row, to: &buffer) }
            return Response(status: .ok, headers: [.contentType: "application/x-ndjson"], body: .init(byteBuffer: buffer))
        }
        router.get("api/databases/:db/unrouted") { request, context in
            let after = request.uri.queryParameters["after"].map { PercentEncoding.decode(String($0)) }
            let rows = try await access(context).unrouted(after: after)
            return Answer.json(.array(rows))
        }
        router.post("api/databases/:db/import") { request, context in
            let access = try access(context)
            var counts = DocumentAccess.ImportCounts()
            var lines = LineSplitter()
            for try await part in request.body {
                try lines.append(part.readableBytesView)
                while let batch = lines.take(500, isEnd: false) { try await access.importLines(batch, counts: &counts) }
            }
            while let batch = lines.take(500, isEnd: true) { try await access.importLines(batch, counts: &counts) }
            return Answer.json(counts.json)
        }
        router.post("api/databases/:db/compact") { _, context in
            let report = try await access(context).database.compact()
            return Answer.json(
                JSONOutput.object([
                    "blobs_removed": JSONOutput.number(report.blobsRemoved),
                    "bodies_removed": JSONOutput.number(report.bodiesRemoved),
                    "bytes_freed": JSONOutput.number(report.fileBytesFreed),
                ]))
        }
    }

    private func access(_ context: BasicRequestContext) throws -> DocumentAccess {
        let (name, collection) = try DocumentAccess.parse(try context.parameters.require("db"))
        guard let database = agent.database(name) else { throw AgentError(.notFound, "there is no database \"\(name)\"") }
        var access = try DocumentAccess(database, collection: collection)
        access.saves = agent.saveDecider(database, access.collection)
        return access
    }

    private func id(_ context: BasicRequestContext) throws -> String {
        PercentEncoding.decode(try context.parameters.require("id"))
    }

    private func answer(_ id: String, _ saved: SavedRevision, _ status: HTTPResponse.Status) -> Response {
        Answer.json(
            JSONOutput.object([
                "ok": .bool(true), "id": .string(id), "rev": .string(saved.revision.text),
                "sequence": JSONOutput.number(saved.sequence),
            ]), status: status)
    }

    private func list(_ access: DocumentAccess, includesDeleted: Bool) async throws -> Response {
        Response(
            status: .ok, headers: [.contentType: "application/json"],
            body: ResponseBody { writer in
                var since: SequenceNumber = 0
                var isFirst = true
                try await writer.write(ByteBuffer(string: "["))
                while true {
                    let rows = try await access.page(since: since, limit: 1_000, includesDeleted: includesDeleted, includesBodies: false)
                    guard let last = rows.last else { break }
                    since = last.sequence
                    var buffer = ByteBuffer()
                    for row in rows {
                        buffer.writeString(isFirst ? "\n" : ",\n")
                        isFirst = false
                        buffer.writeBytes(DocumentLines.summary(row).serialize())
                    }
                    try await writer.write(buffer)
                }
                try await writer.write(ByteBuffer(string: isFirst ? "]\n" : "\n]\n"))
                try await writer.finish(nil)
            })
    }
}
