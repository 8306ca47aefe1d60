import Digests
import Documents
import Encodings
import Glibc
import TestSupport
import Testing

/// Documents that different readers would understand differently, or that would harm the database, are refused on every way in.
@Suite("Hostile documents", .serialized)
struct DoorTests {
    /// Bodies, and what the refusal of each has to name.
    private static let bodies: [(body: String, names: String)] = [
        (#"{"owner":"ann","x":1,"owner":"eve"}"#, "owner"),
        (#"{"a":{"in":[{"deep":1,"deep":2}]}}"#, "deep"),
        (#"{"owner":1,"\u006fwner":2}"#, "owner"),
        (#"{"_deleted":"false"}"#, "_deleted"),
        (#"{"_deleted":0}"#, "_deleted"),
        (#"{"_deleted":null}"#, "_deleted"),
        (#"{"_deleted":[]}"#, "_deleted"),
        (#"{"_id":7}"#, "_id"),
        (#"{"_id":null}"#, "_id"),
        (#"{"_id":{}}"#, "_id"),
        (#"{"a":1,"\u005fowner":"ann"}"#, "_owner"),
    ]

    @Test("duplicate keys, and _deleted or _id with odd values, are refused by the listener, CouchDB's API, a save and an import")
    func ambiguous() async throws {
        let hub = try await AgentProcess.start(Attack.hub())
        let companion = try await Companion.join(hub)
        let peer = try await Peer.connect(hub)
        let couch = try Door.listener.probe(hub)
        for (number, (body, names)) in Self.bodies.enumerated() {
            let error = try await peer.ask(Peer.revision("pushed-\(number)", "1-aa", body)).error
            #expect(error?.code == 400 && error?.message.contains(names) == true, "\(body): \(String(describing: error))")
            let saved = try await hub.put("main", "saved-\(number)", body)
            #expect((400..<500).contains(saved.status) && saved.text.contains(names), "\(body): \(saved)")
            let json = [("Content-Type", "application/json")]
            // CouchDB's word for it.
            let word = names == "_id" ? "Document id" : names
            let put = try await couch.request("PUT", "/main/put-\(number)", headers: json, body: Array(body.utf8))
            #expect(put.status == 400 && put.text.contains(word), "\(body): \(put)")
            for isEdit in [true, false] {
                let text = "{\"new_edits\":\(isEdit),\"docs\":[\(names == "_id" ? body : "{\"_id\":\"bulk-\(number)\",\"_rev\":\"1-aa\"," + body.dropFirst())]}"
                let bulk = try await couch.request("POST", "/main/_bulk_docs", headers: json, body: Array(text.utf8))
                #expect((bulk.status == 400 || bulk.text.contains("\"error\"")) && bulk.text.contains(word), "\(body): \(bulk)")
            }
            // One line among good ones, with an _id unless the case is about the _id.
            let line = names == "_id" ? body : "{\"_id\":\"imported-\(number)\"," + body.dropFirst()
            let text = "{\"_id\":\"good-\(number)\"}\n\(line)\n{\"_id\":\"fine-\(number)\"}\n"
            let imported = try await hub.admin.post("/api/databases/main/import", text)
            #expect(imported.text.contains(names), "\(body): \(imported)")
            for id in ["good-\(number)", "fine-\(number)"] { #expect(try await hub.get("main", id).status == 200, "\(body): \(imported)") }
        }
        // Only the good documents are there.
        #expect(try await hub.documents("main") == Int64(2 * Self.bodies.count))
        try await peer.close()
        try await companion.rounds(1, "after")
        for agent in [hub, companion.agent] { #expect(try await agent.stop().status == 0) }
    }

    @Test("generations that leave no room for later ones are refused, and the document can be edited, pulled and deleted as before", arguments: ["", "merge-fields"])
    func generations(_ resolver: String) async throws {
        let folder = try TemporaryFolder()
        var text = Attack.hub(plugins: !resolver.isEmpty)
        if !resolver.isEmpty {
            try folder.copy("\(NightjarExecutable.package())/plugins/\(resolver).lua", to: "plugins/\(resolver).lua")
            text = text.replacing("main: {}", with: "main: { conflict_resolver: \(resolver) }")
        }
        let hub = try await AgentProcess.start(text, in: folder)
        let peer = try await Peer.connect(hub)
        try await peer.push("innocent", "1-aa", "{\"a\":0}")
        let generations: [UInt64] = [(1 << 53) - 2, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, .max]
        for generation in generations {
            for (id, history) in [("innocent", ""), ("innocent", "\(generation - 1)-bb"), ("new-\(generation)", "")] {
                let replies = try await peer.ask([
                    Peer.revision(id, "\(generation)-cc", "{\"a\":1}", history: history), Peer.revision("beside-\(generation)-\(history.isEmpty)-\(id)"),
                ])
                #expect(replies[0].error.map { (400..<500).contains($0.code) } == true, "\(generation): \(String(describing: replies[0].error))")
                #expect(replies[1].error == nil)
            }
        }
        // The largest generation that is accepted leaves room for those that follow.
        let largest = "\(DocumentLimits.revisionGeneration)-dd"
        if let error = try await peer.ask(Peer.revision("largest", largest)).error { #expect(error.code == 400, "\(error)") }
        for id in ["innocent", "largest"] {
            let found = try await hub.get("main", id)
            guard found.status == 200, let rev = try found.json["_rev"]?.asString else {
                #expect(id != "innocent")
                continue
            }
            let edited = try await hub.put("main", id, "{\"_rev\":\"\(rev)\",\"a\":2}")
            #expect(edited.status < 500, "\(id): \(edited)")
        }
        let pulled = try await peer.pull()
        #expect(pulled["innocent"]?.hasPrefix("2-") == true, "\(pulled)")
        #expect(try await hub.admin.request("DELETE", "/api/databases/main/documents/innocent").status < 300)
        #expect(try await hub.admin.get("/health").status == 200)
        let companion = try await Companion.join(hub)
        try await companion.rounds(1, "after")
        for agent in [hub, companion.agent] { #expect(try await agent.stop().status == 0) }
    }

    @Test("a generation that leaves no room for deciding a conflict is refused, and a peer that pulls gets what the hub has")
    func undecidable() async throws {
        let folder = try TemporaryFolder()
        try folder.copy("\(NightjarExecutable.package())/plugins/local-wins.lua", to: "plugins/local-wins.lua")
        let text = Attack.hub(plugins: true).replacing("main: {}", with: "main: { conflict_resolver: local-wins }")
        let hub = try await AgentProcess.start(text, in: folder)
        let companion = try await Companion.join(hub)
        let peer = try await Peer.connect(hub)
        let cases = [
            (DocumentLimits.receivedGeneration, true), (DocumentLimits.revisionGeneration, true), (DocumentLimits.revisionGeneration, false),
        ]
        for (number, (generation, deleted)) in cases.enumerated() {
            let id = "innocent-\(number)"
            #expect(try await hub.put("main", id, "{\"a\":1}").status < 300)
            let reply = try await peer.ask(Peer.revision(id, "\(generation)-aa", deleted ? "{}" : "{\"a\":2}", deleted: deleted))
            #expect(reply.error?.code == 422, "\(generation): \(String(describing: reply.error))")
            let rev = try #require(try await hub.get("main", id).json["_rev"]?.asString)
            #expect(rev.hasPrefix("1-"), "\(rev)")
            #expect(try await hub.put("main", id, "{\"_rev\":\"\(rev)\",\"a\":3}").status < 300)
            let edited = try #require(try await hub.get("main", id).json["_rev"]?.asString)
            try await eventually("\(id) arrives") { try await companion.agent.get("main", id).json["_rev"]?.asString == edited }
        }
        try await companion.rounds(1, "between")

        // A peer that has its own document of that name keeps it, and everything else continues in both directions.
        #expect(try await companion.agent.admin.post("/api/replicators/hub/stop").status < 300)
        #expect(try await companion.agent.put("main", "own", "{\"mine\":true}").status < 300)
        try await peer.push("own", "\(DocumentLimits.revisionGeneration)-dd", "{\"mine\":false}")
        #expect(try await companion.agent.admin.post("/api/replicators/hub/start").status < 300)
        for (from, to, id) in [(hub, companion.agent, "down"), (companion.agent, hub, "up")] {
            #expect(try await from.put("main", id, "{}").status < 300)
            try await eventually("\(id) arrives") { try await to.get("main", id).status == 200 }
        }
        #expect(try await companion.agent.get("main", "own").json["mine"]?.asBool == true)
        for agent in [hub, companion.agent] { #expect(try await agent.stop().status == 0) }
    }

    @Test("knowing a blob's digest gains a peer nothing unless it sends the blob or proves that it has it")
    func digests() async throws {
        let folder = try TemporaryFolder()
        try folder.write("plugins/open.lua", "return { push_filter = function(doc) return not doc.secret end }")
        let hub = try await AgentProcess.start(Attack.hub("push_filter: open", plugins: true), in: folder)
        let companion = try await Companion.join(hub)
        let secret = "the minutes of the board"
        let digest = "sha1-\(Base64.encode(SHA1.hash(Array(secret.utf8))))"
        let owner = try await Peer.connect(hub)
        try await owner.push("minutes", blob: secret, more: "\"secret\":true,")
        let before = try Meter(hub)
        for round in 0..<50 {
            let thief = try await Peer.connect(hub)
            let refused = try await thief.push("mine-\(round)", digest: digest, length: secret.utf8.count) { $0 == "proveAttachment" ? "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA=" : nil }
            #expect(refused.error != nil)
            for id in ["minutes", "mine-\(round)", "nowhere", ""] {
                let reply = try await thief.ask(.init(profile: "getAttachment", properties: ["digest": digest, "docID": id]))
                #expect(reply.error != nil, "\(id)")
            }
            try await thief.close()
        }
        let pulled = try await owner.pull()
        #expect(!pulled.keys.contains { $0 == "minutes" || $0.hasPrefix("mine") }, "\(pulled)")
        try await companion.rounds(2, "after")
        #expect(try before.cost().seconds < 10)
        for agent in [hub, companion.agent] { #expect(try await agent.stop().status == 0) }
    }
}
