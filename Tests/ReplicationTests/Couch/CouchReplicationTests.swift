import Documents
import DocumentStore
import HTTPServer
import Interfaces
import NIOCore
import Replication
import Synchronization
import TestSupport
import Testing
import Transport

extension DatabaseClient {
    init(_ target: String, _ change: (inout WebSocketClient.Configuration) -> Void = { _ in }) throws {
        var configuration = WebSocketClient.Configuration(url: try EndpointURL(target))
        change(&configuration)
        self.init(configuration, group: loops, environment: .system)
    }
}

extension String {
    /// Leaves out `_attachments`, which the two sides write differently.
    fileprivate var withoutAttachments: String {
        guard let start = ranges(of: ",\"_attachments\"").first?.lowerBound else { return self }
        return self[..<start] + "}"
    }
}

extension CouchServer {
    func attachment(_ name: String, of id: String) -> [UInt8]? {
        let document = tree.documents[id]
        return document?.leaves.first.flatMap { document?.revisions[$0]?.attachments[name]?.bytes }
    }
}

/// Replication with a CouchDB database, over real sockets.
@Suite(.timeLimit(.minutes(5)))
struct CouchReplicationTests {
    private func run(
        _ database: TestDatabase, _ target: String, _ type: ReplicatorType = .pushAndPull, reset: Bool = false,
        _ change: (inout ReplicatorConfiguration) -> Void = { _ in }
    ) async throws -> ReplicatorStatus {
        await Replicator(ReplicatorConfiguration(database, to: target, type, change), try DatabaseClient(target)).run(reset: reset)
    }

    private func expectSame(_ database: TestDatabase, _ server: CouchServer, _ place: SourceLocation = #_sourceLocation) async throws {
        let (here, there) = (try await database.contents(), server.tree.contents)
        #expect(here.map(\.withoutAttachments) == there, sourceLocation: place)
    }

    private func json(_ database: TestDatabase, _ id: String) async throws -> JSONValue {
        try JSONValue(parsing: try await database.body(id) ?? "null")
    }

    @Test("documents, edits and deletions are pulled, and a second run begins where the first ended", arguments: [true, false])
    func pull(hasBulkGet: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            server.change { tree in
                for n in 0..<(hasBulkGet ? 1_200 : 120) { tree.edit("doc-\(n)", "{\"n\":\(n)}") }
                tree.edit("doc-7", "{\"n\":\"seven\"}")
                tree.edit("doc-8", "{}", isDeleted: true)
                tree.edit("odd/id é%\"", "{\"a\":[1,2.50,\"\\u00e9\"]}")
            }
            let first = try await run(a, target, .pull)
            #expect(first.error == nil && first.counts.failed == 0, "\(first)")
            try await expectSame(a, server)
            server.change { $0.edit("doc-9", "{\"n\":\"nine\"}") }
            let second = try await run(a, target, .pull)
            #expect(second.error == nil && second.counts.pulled == 1 && second.counts.total == 1, "\(second)")
            try await expectSame(a, server)
        }
    }

    @Test("documents made here are pushed with their history, and only once")
    func push() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<1_000)
        try await a.put("doc-3", "{\"n\":\"three\"}")
        try await a.put("doc-4", "{}", deleted: true)
        try await CouchServer.with { server, target in
            let first = try await run(a, target, .push)
            #expect(first.error == nil && first.counts.pushed == 1_000, "\(first)")
            try await expectSame(a, server)
            #expect(server.tree.documents["doc-3"]?.leaves.count == 1 && server.tree.documents["doc-3"]?.revisions.count == 2)
            try await a.put("doc-5", "{\"n\":\"five\"}")
            let second = try await run(a, target, .push)
            #expect(second.counts.pushed == 1 && second.counts.total == 1, "\(second)")
            try await expectSame(a, server)
        }
    }

    @Test("in continuous replication an edit on either side arrives at the other, and nothing is sent back")
    func live() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<20, prefix: "a-")
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<20 { tree.edit("b-\(n)", "{\"n\":\(n)}") } }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, continuous: true), try DatabaseClient(target))
            await replicator.start()
            await replicator.wait { $0.activity == .idle && $0.counts.pushed == 20 && $0.counts.pulled == 20 }
            server.change { $0.edit("b-1", "{\"n\":\"new\"}") }
            try await a.wait { try await $0.body("b-1") == "{\"n\":\"new\"}" }
            try await a.put("b-1", "{\"n\":\"newer\"}")
            await replicator.wait { $0.counts.pushed == 21 && $0.activity == .idle }
            try await expectSame(a, server)
            #expect(replicator.status.counts.pulled == 21)
            await replicator.stop()
        }
    }

    /// The requests of one connection go on as if nothing had happened.
    @Test("a database that is deleted and created anew behind a continuous push gets everything again", arguments: [true, false])
    func createdAnew(isIdle: Bool) async throws {
        let a = try TestDatabase()
        try await a.fill(0..<20)
        try await CouchServer.with { server, target in
            let configuration = ReplicatorConfiguration(a, to: target, .push, continuous: true) {
                $0.limits.checkpointIntervalSeconds = 0
                $0.silenceIntervalSeconds = isIdle ? 600 : 0
            }
            // Where it is to be noticed by being idle, the time passes at once.
            let environment = isIdle ? JumpingTime().environment : .system
            let replicator = Replicator(configuration, try DatabaseClient(target), environment: environment)
            await replicator.start()
            await replicator.wait { $0.activity == .idle && $0.counts.pushed == 20 }
            try await eventually("the checkpoint is saved") { !server.tree.local.isEmpty }
            #expect(replicator.status.wentBack == nil)
            server.change { $0 = CouchTree() }
            if !isIdle { try await a.put("new", "{}") }
            try await eventually("everything is there again") { server.tree.contents.count == (isIdle ? 20 : 21) && replicator.status.activity == .idle }
            #expect(replicator.status.wentBack?.message.contains("lost its checkpoint") == true, "\(replicator.status)")
            try await expectSame(a, server)
            await replicator.stop()
        }
    }

    /// Such as one whose login may write `_local` documents, and not read them.
    @Test("a peer that never shows a checkpoint has lost none: nothing is compared again, and each checkpoint is saved there")
    func showsNoCheckpoints() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.trouble { request, _ in
                request.method == "GET" && request.path.hasPrefix("/db/_local/") ? .error(status: 404, error: "not_found", reason: "missing") : nil
            }
            let configuration = ReplicatorConfiguration(a, to: target, .push, continuous: true) { $0.limits.checkpointIntervalSeconds = 0 }
            let replicator = Replicator(configuration, try DatabaseClient(target))
            await replicator.start()
            for n in 1...3 {
                let saved = server.count("PUT /_local")
                try await a.put("doc-\(n)", "{}")
                await replicator.wait { $0.activity == .idle && $0.counts.pushed == UInt64(n) }
                try await eventually("checkpoint \(n) is saved") { server.count("PUT /_local") > saved }
            }
            #expect(replicator.status.wentBack == nil, "\(replicator.status)")
            // One question for each document.
            #expect(server.count("POST /_revs_diff") == 3)
            await replicator.stop()
        }
    }

    @Test("the status shows the progress of each attachment under way, and counts the bytes")
    func progressOfAttachments() async throws {
        let a = try TestDatabase()
        let bytes = [UInt8](repeating: 7, count: 100_000)
        let (half, rest) = (ByteBuffer(bytes: bytes[..<40_000]), ByteBuffer(bytes: bytes[40_000...]))
        let (goOn, signal) = AsyncStream.makeStream(of: Void.self)
        try await CouchServer.with { server, target in
            server.change { $0.edit("film", "{}", attachments: ["reel": .init(type: "video/mp4", bytes: bytes, revpos: 1)]) }
            server.trouble { request, _ in
                guard request.path == "/db/film/reel" else { return nil }
                return HTTPResponse(status: 200, body: .stream(length: 100_000) { writer in
                    try await writer.write(half)
                    for await _ in goOn { break }
                    try await writer.write(rest)
                })
            }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, .pull), try DatabaseClient(target))
            await replicator.start()
            while replicator.status.blobs.first?.bytes != 40_000 { try await Task.sleep(for: .milliseconds(2)) }
            let blob = try #require(replicator.status.blobs.first)
            #expect(blob.direction == .pull && blob.document?.text == "film" && blob.name == "reel" && blob.size == 100_000)
            #expect(replicator.status.counts.blobBytesReceived == 40_000)
            signal.yield()
            let status = await replicator.waitUntilStopped()
            #expect(status.error == nil && status.blobs.isEmpty && status.counts.blobBytesReceived == 100_000, "\(status)")
        }
    }

    @Test("attachments from both sides, small or large, are blobs here and attachments there")
    func attachments() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        let (small, large) = ([UInt8]("hello".utf8), (0..<(3 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let digest = try await a.blob(large)
        try await a.put("inline", "{\"pic\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(large.count),\"content_type\":\"image/png\"}}")
        try await CouchServer.with { server, target in
            server.change { tree in
                tree.edit("note", "{\"n\":1}", attachments: ["a/b é.txt": .init(type: "text/plain", bytes: small, revpos: 1), "big": .init(type: "image/png", bytes: large, revpos: 1)])
            }
            #expect(try await run(a, target).error == nil)
            let note = try await json(a, "note")
            let named = try BlobDigest(note["_attachments"]?["a/b é.txt"]?["digest"]?.asString ?? "")
            let stored = try await a.database.blobs.perform { try $0.read(named) }
            #expect(stored == small)
            #expect(note["_attachments"]?["big"]?["digest"]?.asString == digest)
            // The other side's clients know the attachment by this digest: a revision has one body, wherever it is.
            #expect(note["_attachments"]?["a/b é.txt"]?["md5"]?.asString == "md5-XUFAKrxLKna5cZ2REBfFkg==")
            #expect(server.attachment("blob_/pic", of: "inline") == large)
            // An edit that does not change the attachments fetches none of them again, and carries all of them back.
            let before = server.count("GET /doc")
            server.change { $0.edit("note", "{\"n\":2}") }
            #expect(try await run(a, target).error == nil)
            #expect(server.count("GET /doc") == before)
            guard case .object(var edited) = try await json(a, "note") else { return }
            edited["n"] = 3
            try await a.put("note", JSONValue.object(edited).text)
            #expect(try await run(a, target).error == nil)
            #expect(server.attachment("a/b é.txt", of: "note") == small)
            #expect(server.tree.documents["note"]?.leaves.count == 1)
            // At another peer, the blob is back in its place.
            #expect(try await run(b, target).error == nil)
            let wanted = try BlobDigest(digest)
            let copy = try await b.database.blobs.perform { try $0.read(wanted) }
            #expect(copy == large)
            try await expectSame(b, server)
        }
    }

    @Test("a document that the peer cannot accept is found among hundreds, and the others arrive")
    func poison() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<500)
        try await a.put("poison", "{\"x\":\"too much\"}")
        try await CouchServer.with { server, target in
            server.trouble { request, body in
                guard request.path == "/db/_bulk_docs", String(decoding: body, as: UTF8.self).contains("\"poison\"") else { return nil }
                return .error(status: 413, error: "too_large", reason: "the request entity is too large")
            }
            let replicator = Replicator(ReplicatorConfiguration(a, to: target, .push), try DatabaseClient(target))
            let status = await replicator.run()
            #expect(status.error == nil && status.counts.pushed == 500 && status.counts.failed == 1, "\(status)")
            #expect(server.tree.documents.count == 500 && server.tree.documents["poison"] == nil)
            #expect(try await replicator.refusedCount() == 1)
        }
    }

    @Test("429 with Retry-After, in seconds or as a date, is obeyed, and a connection that breaks in the middle loses nothing", arguments: [false, true])
    func busyAndCut(_ isDate: Bool) async throws {
        let a = try TestDatabase()
        try await a.fill(0..<300)
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<300 { tree.edit("b-\(n)", "{\"n\":\(n)}") } }
            let counts = Mutex<[String: Int]>([:])
            server.trouble { request, _ in
                let number = counts.withLock { counts in
                    counts[request.path, default: 0] += 1
                    return counts[request.path, default: 0]
                }
                switch (request.path, number) {
                case ("/db/_bulk_docs", 1), ("/db/_changes", 1):
                    return .error(
                        status: 429, error: "too_many_requests", reason: "slow down",
                        headers: isDate
                            ? ["Retry-After": "Sun, 06 Nov 1994 08:49:40 GMT", "Date": "Sun, 06 Nov 1994 08:49:37 GMT"] : ["Retry-After": "3"])
                case ("/db/_bulk_get", 2):
                    return .stream(length: 10_000) { writer in
                        try await writer.write(ByteBuffer(string: "{\"results\":["))
                        throw HTTPError(500, "cut")
                    }
                default: return nil
                }
            }
            let time = JumpingTime()
            let status = await Replicator(ReplicatorConfiguration(a, to: target), try DatabaseClient(target), environment: time.environment).run()
            #expect(status.error == nil, "\(status)")
            try await expectSame(a, server)
            #expect(time.sleeps.contains(3))
        }
    }

    @Test("a session is opened once and renewed when it ends, and a wrong password is a clear error")
    func sessions() async throws {
        let a = try TestDatabase()
        try await a.fill(0..<50)
        try await CouchServer.with { server, target in
            server.state.withLock { $0.account = ("ann", "secret") }
            let client = try DatabaseClient(target) { $0.credentials = .basic(.init(username: "ann", password: "secret")) }
            let first = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(first.error == nil && server.state.withLock { $0.logins } == 1, "\(first)")
            // The server drops its sessions in the middle of a run.
            try await a.fill(50..<100)
            server.trouble { [server] request, _ in
                if request.path == "/db/_revs_diff" { server.state.withLock { if $0.cookie == "s2" { $0.cookie = "gone" } } }
                return nil
            }
            let second = await Replicator(ReplicatorConfiguration(a, to: target, .push), client).run()
            #expect(second.error == nil && second.counts.pushed == 50 && server.state.withLock { $0.logins } == 3, "\(second)")
            let wrong = try DatabaseClient(target) { $0.credentials = .basic(.init(username: "ann", password: "guess")) }
            let third = await Replicator(ReplicatorConfiguration(a, to: target, .push), wrong).run()
            #expect(third.error?.domain == .http && third.error?.code == 401 && third.error?.kind == .needsAction, "\(third)")
        }
    }

    @Test("the peer's branches are decided here and ended there: one leaf is left, the same for everybody")
    func conflicts() async throws {
        let (a, b) = (try TestDatabase("a"), try TestDatabase("b"))
        try await CouchServer.with { server, target in
            server.change { tree in
                let root = tree.edit("both", "{\"n\":0}")
                tree.edit("both", "{\"n\":1}", on: root)
                tree.edit("both", "{\"n\":2}", on: root)
                let first = tree.edit("three", "{\"n\":0}")
                for n in 1...3 { tree.edit("three", "{\"n\":\(n)}", on: first) }
                tree.edit("here", "{\"from\":\"there\"}")
            }
            try await a.put("here", "{\"from\":\"here\"}")
            for database in [a, b, a] {
                let status = try await run(database, target)
                #expect(status.error == nil && status.counts.failed == 0, "\(status) \(server.tree.contents)")
            }
            for (id, document) in server.tree.documents {
                #expect(document.leaves.count { document.revisions[$0]?.isDeleted == false } == 1, "\(id): \(document.leaves)")
            }
            try await expectSame(a, server)
            try await expectSame(b, server)
        }
    }
}
