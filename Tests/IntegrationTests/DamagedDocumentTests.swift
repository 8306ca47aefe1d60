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
        let configuration = Configuration.hub(listener: hasChannels ? "sync: all" : "", plugins: true)
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

        let removed = try await hub.command("doc", "rm", "main", "bad")
        #expect(removed.status == 0, "\(removed)")
        #expect(try await hub.isWell())
        #expect(try await edge.isWell())
        try await edge.isSettled()
        #expect(try await edge.documents("main") == 60)
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
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
