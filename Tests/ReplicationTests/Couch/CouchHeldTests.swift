import DocumentStore
import Documents
import HTTPServer
import Interfaces
import NIOCore
import Synchronization
import Testing
import Transport

@testable import Replication

/// Documents whose attachments cannot be fetched or stored: as with blobs elsewhere, they are held, reported as held, and tried again.
@Suite(.timeLimit(.minutes(5)))
struct CouchHeldTests {
    enum Cause: CaseIterable, Sendable { case tooLarge, tooMany, damaged, missing }

    private static let reel = "twenty bytes of reel"

    private func replicator(_ database: TestDatabase, _ target: String, _ cause: Cause?) throws -> Replicator {
        let configuration = ReplicatorConfiguration(database, to: target, .pull) {
            if cause == .tooLarge { $0.limits.maximumBlobBytes = 10 }
            if cause == .tooMany { $0.limits.maximumBlobsPerDocument = 1 }
        }
        return Replicator(configuration, try DatabaseClient(target))
    }

    /// A film with two attachments, and a note.
    private func film(_ server: CouchServer) {
        let (reel, still) = (Array(Self.reel.utf8), Array("a still".utf8))
        server.change { tree in
            tree.edit(
                "film", "{\"n\":1}",
                attachments: ["reel": .init(type: "video/mp4", bytes: reel, revpos: 1), "still": .init(type: "image/png", bytes: still, revpos: 1)])
            tree.edit("note", "{}")
        }
    }

    @Test("each run holds such a document, with the reason, until it can be stored, and pulls the others", arguments: Cause.allCases, [true, false])
    func held(_ cause: Cause, hasBulkGet: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            film(server)
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            server.trouble { request, _ in
                guard request.path == "/db/film/reel" else { return nil }
                switch cause {
                case .tooLarge, .tooMany: return nil
                case .damaged: return HTTPResponse(status: 200, headers: [:], body: .buffer(ByteBuffer(string: "20 bytes that differ")))
                case .missing: return .error(status: 404, error: "not_found", reason: "Document is missing attachment")
                }
            }
            let words =
                switch cause {
                case .tooLarge: "limits: { max_blob_bytes } is 10"
                case .tooMany: "max_blobs_per_document is 1"
                case .damaged: "MD5"
                case .missing: "HTTP 404"
                }
            // The checkpoint passes it at once, because it is on the list.
            for pulled in [1, 0] as [UInt64] {
                let puller = try replicator(a, target, cause)
                let status = await puller.run()
                #expect(status.error == nil && status.counts.pulled == pulled, "\(status)")
                // A run that tries it again requests the document as well, but it still counts as one held document.
                #expect(status.counts.held == 1 && status.counts.failed == 0 && status.counts.completed == status.counts.total, "\(status)")
                #expect(try await puller.heldCount() == 1)
                guard case .held(let noted) = try await puller.standing(of: doc("film"), in: .default).pull else {
                    Issue.record("the document is not reported as held")
                    continue
                }
                #expect(noted.error.contains(words) && noted.plugin.isEmpty, "\(noted.error)")
                #expect(try await a.get("film") == nil)
            }
            server.trouble { _, _ in nil }
            let asked = server.count("POST /_bulk_get")
            let last = try replicator(a, target, nil)
            let status = await last.run()
            #expect(status.error == nil && status.counts.pulled == 1 && status.counts.held == 0, "\(status)")
            // The document itself was here, and is not requested again.
            #expect(server.count("POST /_bulk_get") == asked)
            #expect(try await last.heldCount() == 0)
            let body = try JSONValue(parsing: try await a.body("film") ?? "null")
            let entry = body["_attachments"]?["reel"]
            let digest = try BlobDigest(entry?["digest"]?.asString ?? "")
            let stored = try await a.database.blobs.perform { try $0.read(digest) }
            #expect(stored == Array(Self.reel.utf8) && body["n"]?.asInt64 == 1 && entry?["md5"]?.asString?.hasPrefix("md5-") == true, "\(body.text)")
            #expect(try await a.get("film")?.revision.text == server.tree.documents["film"]?.leaves.first)
            #expect(await last.run().counts.total == 0)
        }
    }

    @Test("a later revision without the attachment takes its place on the list")
    func replaced() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            film(server)
            #expect(try await replicator(a, target, .tooLarge).run().counts.held == 1)
            let leaf = try #require(server.tree.documents["film"]?.leaves.first)
            server.change { _ = $0.edit("film", "{\"n\":2}", on: leaf, attachments: [:]) }
            let second = try replicator(a, target, .tooLarge)
            let status = await second.run()
            #expect(status.error == nil && status.counts.pulled == 1, "\(status)")
            #expect(try await second.heldCount() == 0)
            #expect(try await a.body("film") == "{\"n\":2}")
        }
    }

    /// Records which of the film's attachments are requested.
    private final class Asked: Sendable {
        private let names = Mutex([String]())
        var all: [String] { names.withLock { $0.sorted() } }

        func note(_ path: String) {
            let folder = "/db/film/"
            if path.hasPrefix(folder) { names.withLock { $0.append(String(path.dropFirst(folder.count))) } }
        }
    }

    private func asked(_ server: CouchServer) -> Asked {
        let asked = Asked()
        server.trouble { request, _ in
            asked.note(request.path)
            return nil
        }
        return asked
    }

    @Test("a filter sees a document once, before its attachments are requested, and no attachment of a rejected document is requested", arguments: [true, false])
    func filtered(hasBulkGet: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            film(server)
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            let asked = asked(server)
            // The filter decides by the content of the document.
            let filter = TestFilter { document, _ in
                let entry = (try? JSONValue(parsing: document.body))?["_attachments"]?["reel"]
                return entry?["length"]?.asInt64 ?? 0 > 10 && entry?["content_type"] == "video/mp4" ? .reject : .pass
            }
            func replicator() throws -> Replicator {
                Replicator(ReplicatorConfiguration(a, to: target, .pull) { $0.only { $0.pullFilter = filter } }, try DatabaseClient(target))
            }
            var status = try await replicator().run()
            #expect(status.error == nil && status.counts.pulled == 1 && status.counts.rejected == 1 && status.counts.blobBytesReceived == 0, "\(status)")
            #expect(asked.all == [] && filter.questions.sorted() == ["film", "note"])
            // With another version the document, which is here, passes, and its attachments are fetched.
            filter.become("2") { _, _ in .pass }
            status = try await replicator().run()
            #expect(status.error == nil && status.counts.pulled == 1, "\(status)")
            #expect(asked.all == ["reel", "still"] && filter.questions.sorted() == ["film", "film", "note"])
            let entry = try JSONValue(parsing: try await a.body("film") ?? "null")["_attachments"]?["reel"]
            let digest = try BlobDigest(entry?["digest"]?.asString ?? "")
            #expect(try await a.database.blobs.perform { try $0.read(digest) } == Array(Self.reel.utf8))
        }
    }

    @Test("if a filter changes a document, only the attachments that remain are pulled")
    func changed() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            film(server)
            let asked = asked(server)
            let filter = TestFilter { document, _ in
                guard var body = (try? JSONValue(parsing: document.body))?.asObject, var entries = body["_attachments"]?.asObject else { return .pass }
                entries["reel"] = .none
                body["_attachments"] = .object(entries)
                return .replace(JSONValue.object(body).serialize())
            }
            let configuration = ReplicatorConfiguration(a, to: target, .pull) { $0.only { $0.pullFilter = filter } }
            let status = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(status.error == nil && status.counts.pulled == 2, "\(status)")
            #expect(asked.all == ["still"] && filter.questions.sorted() == ["film", "note"])
            let body = try JSONValue(parsing: try await a.body("film") ?? "null")
            let digest = try BlobDigest(body["_attachments"]?["still"]?["digest"]?.asString ?? "")
            #expect(try await a.database.blobs.perform { try $0.read(digest) } == Array("a still".utf8))
            #expect(body["_attachments"]?["reel"] == nil && body["n"]?.asInt64 == 1, "\(body.text)")
        }
    }
}
