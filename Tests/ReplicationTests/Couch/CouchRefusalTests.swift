import Documents
import DocumentStore
import HTTPServer
import NIOCore
import Replication
import Synchronization
import Testing
import Transport

/// Answers that mean less, or more, than they seem to.
@Suite(.timeLimit(.minutes(5)))
struct CouchRefusalTests {
    private func withLargeBlob(_ body: (TestDatabase, CouchServer, _ target: String, _ size: Int) async throws -> Void) async throws {
        let a = try TestDatabase()
        let large = (0..<(3 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
        let digest = try await a.blob(large)
        try await a.put("film", "{\"reel\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(large.count),\"content_type\":\"video/mp4\"}}")
        try await CouchServer.with { server, target in try await body(a, server, target, large.count) }
    }

    @Test("a document with large attachments does not count as refused if the peer accepts nothing from us", arguments: [true, false])
    func large(forbidsAll: Bool) async throws {
        try await withLargeBlob { a, server, target, _ in
            server.trouble { request, _ in
                guard request.path == "/db/film" || forbidsAll && request.path == "/db/_bulk_docs" else { return nil }
                return .error(status: 403, error: "forbidden", reason: "not you")
            }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target), try DatabaseClient(target))
            let status = await replicator.run()
            // A one-shot run has to say that it has not done all of its work.
            #expect((status.error?.code == 403) == forbidsAll, "\(status)")
            #expect(try await replicator.refusedCount() == (forbidsAll ? 0 : 1))
            #expect(try await replicator.pendingDocumentIDs().count == (forbidsAll ? 1 : 0))
        }
    }

    @Test("an attachment that has to be sent twice counts once")
    func counted() async throws {
        try await withLargeBlob { a, server, target, size in
            let puts = Mutex(0)
            server.trouble { request, _ in
                guard request.path == "/db/film", puts.withLock({ $0 += 1; return $0 }) == 1 else { return nil }
                return HTTPResponse(status: 503, headers: ["Retry-After": "0"], body: .buffer(ByteBuffer(string: "{}")))
            }
            let status = await Replicator(ReplicatorConfiguration(a, to: target, .push), try DatabaseClient(target)).run()
            #expect(status.error == nil && status.counts.pushed == 1 && puts.withLock { $0 } == 2, "\(status)")
            #expect(status.counts.blobBytesSent == UInt64(size))
        }
    }

    @Test("a document that different readers would understand differently is refused alone, and the others in the response are stored", arguments: [true, false])
    func ambiguous(hasBulkGet: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            let odd: [(id: String, body: String, word: String)] = [
                ("doc-4", #"{"owner":"ann","TWICE":"eve"}"#, "the key \"owner\" appears twice"),
                ("doc-13", #"{"owner":"ann","TWICE":"eve"}"#, "the key \"owner\" appears twice"), ("doc-7", #"{"_owner":1}"#, "_owner"),
                ("doc-1", #"{"_deleted":"true"}"#, "_deleted"), ("doc-2", #"{"_deleted":1}"#, "_deleted"), ("doc-3", #"{"_deleted":null}"#, "_deleted"),
                ("doc-5", #"{"_attachments":"odd"}"#, "_attachments"), ("doc-6", #"{"_attachments":[]}"#, "_attachments"),
                ("doc-8", #"{"_attachments":{"a.txt":"odd"}}"#, "_attachments"), ("doc-9", "{}", "_revisions"),
            ]
            let ninth = server.change { tree in
                for n in 0..<20 where !odd.contains(where: { $0.id == "doc-\(n)" }) { tree.edit("doc-\(n)", "{\"n\":\(n)}") }
                return odd.map { tree.edit($0.id, $0.body) }.last ?? ""
            }
            server.rewrite {
                $0.replacing("\"TWICE\"", with: "\"owner\"")
                    .replacing("\"_rev\":\"\(ninth)\",\"_revisions\":{\"start\":1", with: "\"_rev\":\"\(ninth)\",\"_revisions\":{\"start\":\"1\"")
            }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, .pull), try DatabaseClient(target))
            let events = replicator.documentEvents()
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pulled == UInt64(20 - odd.count) && status.counts.failed == UInt64(odd.count), "\(status)")
            #expect(try await a.count() == 20 - odd.count)
            var words: [String: String] = [:]
            for await batch in events {
                for event in batch { words[event.id.text] = event.error?.message }
                if words.count == odd.count { break }
            }
            for (id, _, word) in odd { #expect(words[id]?.contains(word) == true, "\(id): \(words)") }
        }
    }

    @Test("a peer that does not let us look for winners does not count as one that accepts nothing")
    func winners() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.trouble { request, _ in request.path == "/db/_all_docs" ? .error(status: 403, error: "forbidden", reason: "no lists") : nil }
            let replicator = Replicator(
                ReplicatorConfiguration(a, to: target) { $0.retry.maximumAttempts = 1 }, try DatabaseClient(target))
            let status = await replicator.run()
            #expect(status.error?.code == 403 && status.error?.message.contains("_all_docs") == true && status.refusals.push == nil, "\(status)")
        }
    }

    @Test("an answer that is longer than any valid one is not read to its end")
    func endless() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.trouble { request, _ in
                guard request.path == "/db/_revs_diff" else { return nil }
                return .json("{\"x\":[" + Array(repeating: "[]", count: 1 << 20).joined(separator: ",") + "]}")
            }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let status = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(status.error?.message.contains("more than it can have") == true, "\(status)")
        }
    }

    /// Answers that a proxy, a login page or another kind of database may give.
    @Test(
        "an answer of another shape than CouchDB's is an error, and nothing of what was asked about or sent counts as delivered",
        arguments: [
            ("/db/_revs_diff", "[]"), ("/db/_revs_diff", "null"), ("/db/_revs_diff", "\"x\""), ("/db/_revs_diff", "{\"doc-0\":\"x\"}"),
            ("/db/_revs_diff", "{\"doc-0\":{}}"), ("/db/_revs_diff", "{\"other\":{\"missing\":[\"1-aa\"]}}"), ("/db/_bulk_docs", "{}"),
            ("/db/_bulk_docs", "null"), ("/db/_bulk_docs", "[7]"), ("/db/_bulk_docs", "[{\"error\":\"forbidden\",\"reason\":\"no\"}]"),
            ("/db/_bulk_docs", "[{\"id\":\"other\",\"error\":\"forbidden\",\"reason\":\"no\"}]"),
            ("/db/_bulk_docs", "[{\"ok\":true,\"id\":\"other\",\"rev\":\"1-aa\"}]"),
        ])
    func otherShape(_ path: String, _ answer: String) async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.trouble { request, _ in request.path == path ? .json(answer) : nil }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let replicator = Replicator(configuration, try DatabaseClient(target))
            let status = await replicator.run()
            #expect(status.error?.code == 502 && status.error?.message.contains("instead of") == true && status.counts.pushed == 0, "\(status)")
            #expect(try await replicator.pendingDocumentIDs().count == 3)
            #expect(server.count("PUT /_local") == 0)
            server.trouble { _, _ in nil }
            let next = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(next.error == nil && next.counts.pushed == 3 && server.tree.documents.count == 3, "\(next)")
        }
    }

    @Test("a document with large attachments counts as delivered only if the peer says so")
    func otherShapeAlone() async throws {
        try await withLargeBlob { a, server, target, _ in
            server.trouble { request, _ in request.path == "/db/film" ? .json("null") : nil }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let replicator = Replicator(configuration, try DatabaseClient(target))
            let status = await replicator.run()
            #expect(status.counts.pushed == 0 && server.tree.documents["film"] == nil, "\(status)")
            server.trouble { _, _ in nil }
            let next = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(next.error == nil && next.counts.pushed == 1 && server.tree.documents["film"] != nil, "\(next)")
        }
    }

    /// The peer either has the copy that it says is in the way, or a different one each time.
    @Test("a peer that answers every checkpoint with a conflict is not pushed to for ever", arguments: [true, false])
    func conflicts(changes: Bool) async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            let gets = Mutex(0)
            server.trouble { request, _ in
                guard request.path.hasPrefix("/db/_local/") else { return nil }
                if request.method == "PUT" { return .error(status: 409, error: "conflict", reason: "Document update conflict.") }
                let count = gets.withLock { $0 += 1; return $0 }
                return changes ? .json("{\"_id\":\"_local/x\",\"_rev\":\"0-\(count)\"}") : nil
            }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 3 }
            let status = await Replicator(configuration, try DatabaseClient(target), environment: JumpingTime().environment).run()
            #expect(server.tree.documents.count == 3)
            #expect(changes ? status.error?.isTransient == true : status.error == nil, "\(status)")
            // Another copy than the one that was read at first is noticed before it is replaced.
            #expect(server.count("PUT /_local") == (changes ? 0 : 3))
        }
    }

    @Test("a peer that cannot confirm that its writes are on disk gets no checkpoint", arguments: [500, 400, 404, 405, 410])
    func uncommitted(_ status: Int) async throws {
        let a = try TestDatabase()
        try await a.fill(0..<3)
        try await CouchServer.with { server, target in
            server.trouble { request, _ in
                request.path == "/db/_ensure_full_commit" ? .error(status: status, error: "trouble", reason: "the disk does not answer") : nil
            }
            let configuration = ReplicatorConfiguration(a, to: target, .push) { $0.retry.maximumAttempts = 1 }
            let first = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(server.tree.documents.count == 3)
            // Servers that do not have this request write to disk at once.
            guard status == 500 || status == 400 else {
                #expect(first.error == nil && server.count("PUT /_local") > 0, "\(first)")
                return
            }
            #expect(first.error?.code == status && first.error?.isTransient == true, "\(first)")
            #expect(first.error?.message.contains("_ensure_full_commit") == true && server.count("PUT /_local") == 0, "\(first)")
            server.trouble { _, _ in nil }
            let second = await Replicator(configuration, try DatabaseClient(target)).run()
            #expect(second.error == nil && server.count("PUT /_local") > 0, "\(second)")
        }
    }

    @Test("a document whose values would take more memory than there is for all documents is refused, and the others are stored")
    func manyValues() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<4 { tree.edit("doc-\(n)", "{}") } }
            // With two bytes for each value, the text is short.
            let bomb = "{\"results\":[" + Array(repeating: "[]", count: 2_200_000).joined(separator: ",") + "]}"
            server.trouble { request, body in
                guard request.path == "/db/_bulk_get", String(decoding: body, as: UTF8.self).contains("doc-2") else { return nil }
                return .json(bomb)
            }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, .pull), try DatabaseClient(target))
            let status = await replicator.run()
            #expect(status.counts.pulled == 3, "\(status)")
            let (here, refused) = (try await a.body("doc-3"), try await a.body("doc-2"))
            #expect(here != nil && refused == nil)
        }
    }
}
