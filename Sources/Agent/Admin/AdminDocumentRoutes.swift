import Documents
import DocumentStore
import Encodings
import HTTPServer
import NIOCore

/// Documents over the admin API: what `nightjar doc`, `import` and `export` use while an agent runs.
struct AdminDocumentRoutes: Sendable {
    let agent: Agent

    /// The largest document, and the few members that the store does not keep in the body.
    static let documentLimit = NamedLimit("max_body_bytes", StoreLimits.maxBodyBytes + 4096)

    var routes: [Route] {
        [
            .get("api/databases/:db/documents") { request in list(try access(request), includesDeleted: try request.flag(.deleted)) },
            .get("api/databases/:db/documents/:id") { request in
                let id = try request.parameters.require("id")
                let withVersion = try request.flag(.cv)
                guard let json = try await access(request).get(id, withVersion: withVersion) else { throw AgentError(.notFound, "there is no document \"\(id)\"") }
                return Answer.json(bytes: json + [UInt8(ascii: "\n")])
            },
            .put("api/databases/:db/documents/:id", bodyLimit: Self.documentLimit) { request in
                let id = try request.parameters.require("id")
                let access = try access(request)
                let body = try await request.body.collect()
                let (parent, onConflict) = try revision(request)
                return answer(id, try await access.put(id, Array(body.readableBytesView), parent: parent, onConflict: onConflict), 201)
            },
            .delete("api/databases/:db/documents/:id") { request in
                let id = try request.parameters.require("id")
                let (parent, onConflict) = try revision(request)
                return answer(id, try await access(request).remove(id, revision: parent, onConflict: onConflict), 200)
            },
            .post("api/databases/:db/purge/:id") { request in
                let id = try request.parameters.require("id")
                try await access(request).purge(id)
                return Answer.json(JSONOutput.object(["ok": .bool(true), "id": .string(id)]))
            },
            .get("api/databases/:db/why/:id") { request in
                let (name, collection) = try DocumentAccess.parse(try request.parameters.require("db"))
                return Answer.json(try await agent.whereabouts(of: try request.parameters.require("id"), in: collection, database: name))
            },
            .get("api/databases/:db/find", find),
            .get("api/databases/:db/export") { request in
                export(try access(request), includesDeleted: try request.flag(.deleted), namesCollection: try request.flag(.collectionNames))
            },
            .get("api/databases/:db/last") { request in
                let text = try request.value(.count)
                let count = text.flatMap { Int($0) } ?? 100
                guard (1...DocumentAccess.maximumLast).contains(count) else {
                    throw AgentError(.invalid, "count must be 1 to \(DocumentAccess.maximumLast), not \(count)")
                }
                var buffer = ByteBuffer()
                for row in try await access(request).last(count) { DocumentLines.append(row, to: &buffer) }
                return HTTPResponse(status: 200, headers: ["Content-Type": "application/x-ndjson"], body: .buffer(buffer))
            },
            .get("api/databases/:db/unrouted") { request in
                let access = try access(request)
                return Answer.rows { rows in try await access.forEachUnrouted { try await rows.write($0) } }
            },
            // Of any size: it is stored in batches as it arrives.
            .post("api/databases/:db/import", bodyLimit: .unlimited) { request in
                var access = try access(request)
                access.importsWithoutBlobs = try request.flag(.missingBlobs)
                let before = try request.value(.after)
                guard let lines = Int(before ?? "0"), lines >= 0 else { throw AgentError(.invalid, "after must be a number of lines") }
                var pieces = request.body.makeAsyncIterator()
                return Answer.json(try await access.importAll(source: try request.value(.source), after: lines) { try await pieces.next() }.json)
            },
        ]
    }

    /// The revision that a save follows, from `?rev=` or `If-Match`, and what to do if the document is at another one. A client that sends `If-Match`
    /// expects the save to fail then, unless `on_conflict` says otherwise.
    private func revision(_ request: HTTPRequest) throws -> (parent: String?, onConflict: SaveConflict) {
        let onConflict = try request.value(.onConflict).map { text throws(AgentError) in try SaveConflict(text) }
        let parent = try request.value(.rev)
        guard let match = request.headers.first("If-Match") else { return (parent, onConflict ?? .resolve) }
        let revision = match.hasPrefix("\"") && match.hasSuffix("\"") && match.utf8.count > 1 ? String(match.dropFirst().dropLast()) : match
        if let parent, !parent.utf8.elementsEqual(revision.utf8) {
            throw AgentError(.invalid, "If-Match is \(match), and rev is \(parent): one of them names the revision")
        }
        return (revision, onConflict ?? .fail)
    }

    private func access(_ request: HTTPRequest) throws -> DocumentAccess {
        let (name, collection) = try DocumentAccess.parse(try request.parameters.require("db"))
        guard let database = agent.database(name) else { throw AgentError(.notFound, "there is no database \"\(name)\"") }
        return try access(database, collection)
    }

    private func access(_ database: Database, _ collection: CollectionName) throws -> DocumentAccess {
        var access = try DocumentAccess(database, collection: collection)
        access.saves = agent.saveDecider(database, access.collection)
        access.saveDeciderFor = { [agent, collection = access.collection] in try agent.saveDecider(database, collection, plugin: $0) }
        access.validation = agent.validation(database, access.collection)
        access.elsewhere = { try self.access(database, $0) }
        return access
    }

    /// A page of the documents whose ids begin with `prefix`, in the order of their last change, after `since`; `next`, unless null, is where the
    /// following page starts. With `newest=true`, the most recently changed ones instead.
    @Sendable private func find(_ request: HTTPRequest) async throws -> HTTPResponse {
        let access = try access(request)
        let limit = try request.value(.limit).flatMap { Int($0) } ?? 100
        guard (1...DocumentAccess.maximumFound).contains(limit) else {
            throw AgentError(.invalid, "limit must be 1 to \(DocumentAccess.maximumFound)")
        }
        let includesDeleted = try request.flag(.deleted)
        if try request.flag(.newest) {
            let rows = try await access.last(limit, includesBodies: false)
            return Answer.json(JSONOutput.object(["rows": .array(rows.reversed().map { DocumentLines.summary($0) }), "next": .null]))
        }
        let since = try request.value(.since).flatMap { SequenceNumber($0) } ?? 0
        let found = try await access.find(
            prefix: try request.value(.prefix) ?? "", since: since, limit: limit, includesDeleted: includesDeleted)
        return Answer.json(
            JSONOutput.object([
                "rows": .array(found.rows.map { DocumentLines.summary($0) }),
                "next": found.next.map { JSONOutput.number($0) } ?? .null,
            ]))
    }

    private func answer(_ id: String, _ saved: SavedRevision, _ status: Int) -> HTTPResponse {
        Answer.json(
            JSONOutput.object([
                "ok": .bool(true), "id": .string(id), "rev": .string(saved.revision.text),
                "sequence": JSONOutput.number(saved.sequence),
            ]), status: status)
    }

    private func export(_ access: DocumentAccess, includesDeleted: Bool, namesCollection: Bool) -> HTTPResponse {
        .stream(headers: ["Content-Type": "application/x-ndjson"]) { writer in
            var unreadable = 0
            try await access.export(includesDeleted: includesDeleted, namesCollection: namesCollection) {
                try await writer.write($0)
            } unreadable: { part in
                unreadable += 1
                try await writer.write(ExportLines.unreadable(part))
            }
            guard unreadable > 0 else { return }
            try await writer.write(ExportLines.end(unreadable: unreadable))
            // Cuts the answer short, for clients that do not read the messages between the lines.
            throw HTTPError(500, "\(Plural.count(unreadable, "part")) of the collection cannot be read")
        }
    }

    private func list(_ access: DocumentAccess, includesDeleted: Bool) -> HTTPResponse {
        Answer.rows { rows in
            var since: SequenceNumber = 0
            while true {
                let page = try await access.page(since: since, limit: 1_000, includesDeleted: includesDeleted, includesBodies: false)
                guard let last = page.last else { return }
                since = last.sequence
                try await rows.write(page.map { DocumentLines.summary($0) })
            }
        }
    }
}
