import Documents
import DocumentStore
import Environment
import Interfaces
import NIOCore
import Testing
import Transport

@testable import Replication

/// Documents that take a good part of `limits.memory`.
@Suite(.timeLimit(.minutes(5)))
struct CouchLargeDocumentTests {
    private func pull(_ database: TestDatabase, _ target: String, _ memory: MemoryBudget) async throws -> (ReplicatorStatus, words: String?) {
        let configuration = ReplicatorConfiguration(database, to: target, .pull) { $0.retry.maximumAttempts = 1 }
        let replicator = Replicator(configuration: configuration, connector: try DatabaseClient(target), environment: .system, memory: memory, logger: quietLogger())
        return await replicator.run { $0.error != nil }
    }

    private func grow(_ server: CouchServer, _ bytes: Int) {
        let text = String(repeating: "x", count: bytes)
        server.change { tree in
            tree.edit("first", "{}")
            tree.edit("large", "{\"text\":\"\(text)\",\"n\":7}")
            tree.edit("last", "{}")
        }
    }

    @Test("a document of the maximum size is pulled with the default limits.memory", arguments: [true, false])
    func largest(hasBulkGet: Bool) async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            server.state.withLock { $0.hasBulkGet = hasBulkGet }
            grow(server, 19 << 20)
            let memory = MemoryBudget(limit: 64 << 20)
            let (status, words) = try await pull(a, target, memory)
            #expect(status.error == nil && status.counts.pulled == 3 && status.counts.failed == 0, "\(status) \(words ?? "")")
            let body = try await a.body("large") ?? ""
            #expect(body.utf8.count > 19 << 20 && body.hasSuffix("\"n\":7}"))
        }
    }

    @Test("a document that limits.memory has no room for fails by name, with the value that it needs, and the others are pulled")
    func outOfSpace() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            grow(server, 3 << 20)
            let (status, words) = try await pull(a, target, MemoryBudget(limit: 4 << 20))
            #expect(status.error == nil && status.counts.pulled == 2 && status.counts.failed == 1, "\(status)")
            #expect(words?.contains("document large has ") == true && words?.contains("this agent's limits.memory (4194304)") == true, "\(words ?? "")")
            let needed = words?.mebibytes(after: "limits: { memory: ")
            // With that much memory it is pulled, on its own, and not before.
            let asked = server.count("POST /_bulk_get")
            #expect(try await pull(a, target, MemoryBudget(limit: 4 << 20)).0.counts.total == 0 && server.count("POST /_bulk_get") == asked)
            let mended = try await pull(a, target, MemoryBudget(limit: try #require(needed))).0
            #expect(mended.error == nil && mended.counts.pulled == 1 && mended.counts.failed == 0, "\(mended)")
            #expect(try await a.get("large") != nil)
            let again = try TestDatabase()
            let second = try await pull(again, target, MemoryBudget(limit: try #require(needed)))
            #expect(second.0.error == nil && second.0.counts.pulled == 3, "\(second)")
        }
    }

    @Test("a document that was too large is requested until it is here, even if the peer cannot send it the first time")
    func notYet() async throws {
        let a = try TestDatabase()
        try await CouchServer.with { server, target in
            let text = String(repeating: "x", count: 3 << 20)
            server.change { tree in
                tree.edit("large", "{\"text\":\"\(text)\"}", attachments: ["scan": .init(type: "image/png", bytes: Array("a scan".utf8), revpos: 1)])
            }
            #expect(try await pull(a, target, MemoryBudget(limit: 4 << 20)).0.counts.failed == 1)
            server.trouble { request, _ in
                guard request.path == "/db/large/scan" else { return nil }
                return .error(status: 500, error: "internal_server_error", reason: "broken")
            }
            let second = try await pull(a, target, MemoryBudget(limit: 64 << 20)).0
            #expect(second.error == nil && second.counts.pulled == 0 && second.counts.failed == 1, "\(second)")
            server.trouble { _, _ in nil }
            let third = try await pull(a, target, MemoryBudget(limit: 64 << 20)).0
            #expect(third.error == nil && third.counts.pulled == 1 && third.counts.failed == 0, "\(third)")
            #expect(try await a.get("large") != nil)
        }
    }

    @Test("the values of an answer are counted once")
    func values() {
        var answer = PeerAnswer(status: 200, body: ByteBuffer(string: "[1,2,3]"))
        let values = answer.valueBytes
        answer.countValues()
        #expect(answer.counted?.values == values && answer.valueBytes == values)
        answer.body = ByteBuffer(string: "[1]")
        #expect(answer.valueBytes < values)
    }

    @Test("a large document is cut out of the bytes of a response")
    func bytes() throws {
        let document = "{ \"_id\" : \"a\", \"\\u005frev\":\"1-aa\",\"x\":{\"_id\":[1,\"}\"]} ,\"_other\":1,\"_attachments\":{\"f\":{\"stub\":true}}, \"y\":\"\\\"\" }"
        for answer in ["{\"results\":[{\"id\":\"a\",\"docs\":[{\"ok\":\(document)}]}]}\n", " [ {\"ok\":\(document)} ] "] {
            let large = try #require(LargeDocument(ByteBuffer(string: answer)))
            #expect(String(buffer: large.content) == "{\"x\":{\"_id\":[1,\"}\"]},\"_other\":1,\"y\":\"\\\"\"}")
            #expect(large.head["_id"] == "a" && large.head["_rev"] == "1-aa" && large.head["_attachments"]?["f"]?["stub"] == true)
        }
        let others = [
            "{\"results\":[{\"id\":\"a\",\"docs\":[{\"ok\":{}},{\"ok\":{}}]}]}", "{\"results\":[]}", "[{\"error\":{}}]", "[]", "{", "", "[{\"ok\":1}]",
            "[{\"ok\":{\"a\":1,\"a\":2}}]",
        ]
        for answer in others { #expect(LargeDocument(ByteBuffer(string: answer)) == nil, "\(answer)") }
    }
}

extension String {
    /// The bytes that `12MiB` after these words stands for.
    fileprivate func mebibytes(after words: String) -> Int? {
        guard let place = firstRange(of: words)?.upperBound else { return nil }
        let number = self[place...].prefix { $0.isNumber }
        return self[number.endIndex...].hasPrefix("MiB") ? Int(number).map { $0 << 20 } : nil
    }
}
