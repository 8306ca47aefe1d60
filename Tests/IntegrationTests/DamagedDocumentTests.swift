import Documents
import Encodings
import TestSupport
import Testing

/// One document whose stored revision tree cannot be read: peers get everything else, and the agent says which one it is.
@Suite("A damaged document", .serialized)
struct DamagedDocumentTests {
    @Test("is left out of feeds, named in health and status, and can be removed", arguments: [false, true])
    func isSetAside(_ hasChannels: Bool) async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/all.lua", "return { sync = function() channel('!') end }")
        let configuration = Configuration.hub(listener: hasChannels ? "couchdb: true\n    sync: all" : "couchdb: true", plugins: true)
        let first = try await AgentProcess.start(configuration, in: folder)
        try await first.load("before", 20)
        let rev = try await first.save("bad", "{}")
        let current = try await first.save("bad", #"{"_rev":"\#(rev)","n":2}"#)
        try await first.load("after", 20)
        // Its channels are assigned before it is damaged.
        let early = try await AgentProcess.start(Configuration.edge(to: try first.port("edge")))
        try await early.waits(documents: 41)
        #expect(try await early.stop().status == 0)
        #expect(try await first.stop().status == 0)
        try Self.damageTree(at: current, in: folder)

        let hub = try await AgentProcess.start(configuration, in: folder)
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge")))
        try await edge.load("pushed", 20)
        try await edge.waits(documents: 60)
        try await hub.waits(documents: 61)
        let health = try await hub.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("bad"), "\(health)")
        let damaged = try await hub.database("main")["damaged_documents"]?.asArray ?? []
        #expect(damaged.map { $0["id"]?.asString } == ["bad"])
        let status = try await hub.command("status")
        #expect(status.output.contains("database main") && status.output.contains("document bad is damaged"), "\(status)")

        // Clients of CouchDB are told of it alone, too.
        let couch = try CouchHTTP(hub)
        let changes = try await couch.changes("style=all_docs").ids
        #expect(changes.count == 60 && !changes.contains("bad"), "\(changes)")
        let asked = "{\"docs\":[{\"id\":\"before-1\"},{\"id\":\"bad\",\"rev\":\"\(current)\"},{\"id\":\"after-1\"}]}"
        let got = try await couch.ok("POST", "/main/_bulk_get?revs=true", asked)["results"]?.asArray?.compactMap { $0["docs"]?.asArray?.first } ?? []
        #expect(got.count == 3 && got[0]["ok"] != nil && got[1]["error"] != nil && got[2]["ok"] != nil, "\(got)")
        #expect(try await couch.send("GET", "/main/bad?revs=true").status == (hasChannels ? 404 : 500))

        let removed = try await hub.command("doc", "rm", "main", "bad")
        #expect(removed.status == 0, "\(removed)")
        #expect(try await hub.isWell())
        #expect(try await edge.isWell())
        try await edge.isSettled()
        #expect(try await edge.documents("main") == 60)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    /// A body that is no JSON any more would spoil what is said of all others.
    @Test("whose body is no longer JSON is reported by itself to CouchDB clients, named, and can be deleted there")
    func garbledBody() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub(listener: "couchdb: true")
        let first = try await AgentProcess.start(configuration, in: folder)
        try await first.load("before", 5)
        let rev = try await first.save("bad", #"{"garbled":"a text that can be found"}"#)
        try await first.load("after", 5)
        #expect(try await first.stop().status == 0)
        let name = "data/main.nightjar/db.sqlite3"
        var bytes = try folder.read(name)
        let text = Array(#"{"garbled":"#.utf8)
        // The quote behind the key goes.
        for index in 0..<(bytes.count - text.count) where bytes[index..<(index + text.count)].elementsEqual(text) { bytes[index + 9] = UInt8(ascii: "x") }
        try folder.write(name, bytes: bytes)

        let hub = try await AgentProcess.start(configuration, in: folder)
        let couch = try CouchHTTP(hub)
        let asked = "{\"docs\":[{\"id\":\"before-1\"},{\"id\":\"bad\"},{\"id\":\"after-1\"}]}"
        let got = try await couch.ok("POST", "/main/_bulk_get?revs=true", asked)["results"]?.asArray?.compactMap { $0["docs"]?.asArray?.first } ?? []
        #expect(got.count == 3 && got[0]["ok"] != nil && got[1]["error"] != nil && got[2]["ok"] != nil, "\(got)")
        #expect(try await couch.send("GET", "/main/bad").status == 500)
        for target in ["/main/_all_docs?include_docs=true", "/main/_changes?include_docs=true"] {
            let answer = try await couch.ok("GET", target)
            #expect((answer["rows"] ?? answer["results"])?.asArray?.count == 10, "\(target): \(answer.text)")
        }
        #expect(try await hub.admin.get("/health").text.contains("document bad is damaged"))
        // A replicator brings all others.
        let edge = try await AgentProcess.start(Configuration.edge(to: try hub.port("edge"), type: "pull", scheme: "http"))
        try await edge.waits(documents: 10)
        #expect(try await couch.send("DELETE", "/main/bad?rev=\(rev)").status == 200)
        #expect(try await couch.send("GET", "/main/bad").status == 404)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    /// Overwrites the version byte in front of a tree whose newest revision this is.
    private static func damageTree(at revision: String, in folder: TemporaryFolder) throws {
        let name = "data/main.nightjar/db.sqlite3"
        var bytes = try folder.read(name)
        let digest = try #require(Hex.decode(revision.dropFirst(2)))
        var found = 0
        for index in 6..<(bytes.count - digest.count) where bytes[index] == digest[0] && bytes[index..<(index + digest.count)].elementsEqual(digest) {
            // version, count, flags, distance to the parent, generation, length of the digest
            guard bytes[(index - 6)..<index].elementsEqual([1, 2, 0, 1, 2, 20]) else { continue }
            bytes[index - 6] = 77
            found += 1
        }
        try #require(found > 0, "no tree with \(revision)")
        try folder.write(name, bytes: bytes)
    }
}
