import Documents
import DocumentStore
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Synchronization
import TestSupport
import Testing
import Transport

@testable import Replication

/// How documents are requested from a CouchDB: as many at a time as there is memory for, and each as rarely as possible.
@Suite(.timeLimit(.minutes(5)))
struct CouchFetchTests {
    /// Pulls documents of this size, and returns how many were requested altogether.
    private func requested(_ count: Int, of bytes: Int, _ limit: Int, _ trouble: @escaping CouchServer.Trouble = { _, _ in nil }) async throws -> Int {
        let database = try TestDatabase()
        let asked = Mutex(0)
        try await CouchServer.with { server, target in
            server.change { tree in
                for n in 0..<count { tree.edit("doc-\(n)", "{\"n\":\(n),\"text\":\"\(String(repeating: "x", count: bytes))\"}") }
            }
            server.trouble { request, body in
                if request.path == "/db/_bulk_get" {
                    let docs = (try? JSONValue(parsing: body))?["docs"]?.asArray?.count ?? 0
                    asked.withLock { $0 += docs }
                }
                return trouble(request, body)
            }
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(database, to: target, .pull), connector: try DatabaseClient(target), environment: .system,
                memory: MemoryBudget(limit: limit), logger: quietLogger())
            let (status, words) = await replicator.run { $0.error != nil }
            #expect(status.error == nil && status.counts.pulled == count, "\(status), \(words ?? "")")
            for n in 0..<count {
                let body = try await database.body("doc-\(n)") ?? ""
                #expect(body.utf8.count > bytes && body.contains("\"n\":\(n)"))
            }
        }
        return asked.withLock { $0 }
    }

    @Test("what has arrived of an answer that is too long is used: hardly anything is requested twice")
    func cutAnswers() async throws {
        #expect(try await requested(40, of: 300_000, 8 << 20) <= 80)
        #expect(try await requested(300, of: 20_000, 8 << 20) <= 330)
    }

    @Test func aLargeDocumentAmongSmallOnesKeepsNoneOfThemBack() async throws {
        let database = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in
                for n in 0..<30 { tree.edit("doc-\(n)", "{\"text\":\"\(String(repeating: "x", count: n % 10 == 5 ? 1_900_000 : 500))\"}") }
            }
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(database, to: target, .pull), connector: try DatabaseClient(target), environment: .system,
                memory: MemoryBudget(limit: 8 << 20), logger: quietLogger())
            let (status, words) = await replicator.run { $0.error != nil }
            #expect(status.error == nil && status.counts.pulled == 30, "\(status), \(words ?? "")")
        }
    }

    @Test("small documents are stored while large ones among them are still arriving, and nothing of these is lost")
    func smallOnesDoNotWait() async throws {
        let database = try TestDatabase()
        let ids = (0..<4).map { "large-\($0)" }
        let gates = Dictionary(uniqueKeysWithValues: ids.map { ($0, AsyncStream.makeStream(of: Void.self)) })
        try await CouchServer.with { server, target in
            server.change { tree in
                for id in ids { tree.edit(id, "{\"text\":\"\(String(repeating: "x", count: 1_900_000))\"}") }
                for n in 0..<60 { tree.edit("doc-\(n)", "{\"n\":\(n)}") }
            }
            server.trouble { [tree = server.tree] request, body in
                guard request.path == "/db/_bulk_get", let docs = (try? JSONValue(parsing: body))?["docs"]?.asArray, docs.count == 1,
                    let id = docs[0]["id"]?.asString, let gate = gates[id]?.stream, let rev = docs[0]["rev"]?.asString, let found = tree.json(id, rev)
                else { return nil }
                let text = "{\"results\":[{\"id\":\"\(id)\",\"docs\":[{\"ok\":\(found.text)}]}]}"
                return HTTPResponse(status: 200, body: .stream(length: text.utf8.count) { writer in
                    try await writer.write(ByteBuffer(string: String(text.prefix(100_000))))
                    for await _ in gate { break }
                    try await writer.write(ByteBuffer(string: String(text.dropFirst(100_000))))
                })
            }
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(database, to: target, .pull), connector: try DatabaseClient(target), environment: .system,
                memory: MemoryBudget(limit: 8 << 20), logger: quietLogger())
            await replicator.start()
            try await eventually("all small ones are here") { try await database.count() == 60 }
            for gate in gates.values { gate.continuation.finish() }
            let status = await replicator.waitUntilStopped()
            #expect(status.error == nil && status.counts.pulled == 64, "\(status)")
            #expect(try await database.count() == 64)
            // The checkpoint is behind all of them.
            let again = Replicator(ReplicatorConfiguration(database, to: target, .pull), try DatabaseClient(target))
            #expect(await again.run().counts.total == 0)
        }
    }

    /// What is wrong with every answer that has one of the documents.
    enum Poison: CaseIterable { case failure, brokenText, badText }

    @Test("a document that spoils every answer is left out by name, and the others come", arguments: Poison.allCases)
    func poisoned(_ poison: Poison) async throws {
        let database = try TestDatabase()
        try await CouchServer.with { server, target in
            server.change { tree in for n in 0..<40 { tree.edit("doc-\(n)", "{\"n\":\(n)}") } }
            server.trouble { [tree = server.tree] request, body in
                guard request.path == "/db/_bulk_get", String(decoding: body, as: UTF8.self).contains("\"doc-7\"") else { return nil }
                if poison == .failure { return HTTPResponse(status: 500, headers: [:], body: .buffer(ByteBuffer(string: "{\"error\":\"badmatch\"}"))) }
                let entries = ((try? JSONValue(parsing: body))?["docs"]?.asArray ?? []).compactMap { wanted -> String? in
                    guard let id = wanted["id"]?.asString, let rev = wanted["rev"]?.asString, let found = tree.json(id, rev) else { return nil }
                    let text = "{\"id\":\"\(id)\",\"docs\":[{\"ok\":\(found.text)}]}"
                    return id == "doc-7" ? text.replacing("\"n\":", with: poison == .brokenText ? "\"n\":[" : "\"n\":x") : text
                }
                return .json("{\"results\":[\(entries.joined(separator: ","))]}")
            }
            let replicator = Replicator(
                configuration: ReplicatorConfiguration(database, to: target, .pull) { $0.retry.maximumAttempts = 1 }, connector: try DatabaseClient(target),
                environment: .system, memory: .unlimited, logger: quietLogger())
            let (status, words) = await replicator.run { $0.error != nil }
            #expect(status.counts.pulled == 39 && status.counts.failed >= 1, "\(status), \(words ?? "")")
            #expect(try await database.body("doc-7") == nil)
            #expect(try await database.body("doc-8") != nil)
            // Once it is whole, it comes.
            server.trouble { _, _ in nil }
            let again = await replicator.run { $0.error != nil }.0
            #expect(again.error == nil && again.counts.pulled == 1, "\(again)")
        }
    }

    @Test("the entries of an answer are found up to where it was cut", arguments: [
        (#"{"results":[{"id":"a","docs":[]},{"id":"b","docs":[{"ok":{"x":"]}"}}]}]}"#, 2),
        (#"{"results":[{"id":"a","docs":[]},{"id":"b","docs":[{"ok":{"x":"]"#, 1),
        (#"{"results":[{"id":"a","docs":[]}"#, 0),
        (#" { "other" : [1] , "results" : [ {"id":"a"} , {"id":"b"} ] } "#, 2),
        (#"{"results":[]}"#, 0),
    ])
    func entries(_ text: String, _ count: Int) throws {
        let buffer = ByteBuffer(string: text)
        let entries = try #require(BulkGetEntries(buffer))
        #expect(entries.places.count == count)
        for place in entries.places {
            let bytes = buffer.getBytes(at: place.lowerBound, length: place.count) ?? []
            #expect(try JSONValue(parsing: bytes)["id"]?.asString != nil)
        }
        // Wherever it is cut, only whole entries are found.
        for cut in 0...text.utf8.count {
            for place in BulkGetEntries(ByteBuffer(string: String(text.prefix(cut))))?.places ?? [] {
                #expect((try? JSONValue(parsing: buffer.getBytes(at: place.lowerBound, length: place.count) ?? [])) != nil)
            }
        }
    }

    @Test("an entry belongs to the document that it has, and only without one to the document that it names", arguments: [
        (#"{"id":"a","docs":[{"ok":{"_id":"b"}}]}"#, "b"), (#"{"id":"a","docs":[{"error":{"id":"b"}}]}"#, "a"), (#"{"id":"a","docs":[]}"#, "a"),
        (#"{"id":"a","docs":[{"ok":{"x":"yyyy"#, "a"), (#"{"id":"a","docs":[{"ok":{"_id":"b","x":"yyyy"#, "b"), (#"{"ok":{"_id":"b"}}"#, "b"),
        (#"{"id":"\u0061","docs":"x"}"#, "a"),
    ])
    func owner(_ text: String, _ id: String) { #expect(BulkGetEntries.owner(of: 0..<text.utf8.count, in: ByteBuffer(string: text)) == id) }

    @Test func anEntryMayBelongToNobody() {
        for text in ["{}", "{\"docs\":[{}]}", "{\"id\":7}"] { #expect(BulkGetEntries.owner(of: 0..<text.utf8.count, in: ByteBuffer(string: text)) == nil) }
    }

    @Test func whatIsNoSuchAnswerHasNoEntries() {
        for text in ["", "{", "[]", "{\"results\":{}}", "{\"error\":\"x\"}", "\u{0}\u{1}", "{\"results\""] {
            #expect(BulkGetEntries(ByteBuffer(string: text)) == nil)
        }
    }
}
