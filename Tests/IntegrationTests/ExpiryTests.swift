import Documents
import TestSupport
import Testing

/// Documents that say themselves when they are to go (`_exp`).
@Suite("Documents that expire")
struct ExpiryTests {
    private static let agent = """
        data: data
        admin: { port: 0, open: true }
        databases: { main: {}, other: {} }
        listeners: [ { name: edge, databases: [ main ], port: 0, interface: 127.0.0.1, disable_tls: true } ]

        """

    @Test("a document is purged at its _exp, pushed or not; the _exp is shown until then, survives edits, and null removes it")
    func saving() async throws {
        let agent = try await AgentProcess.start(Self.agent + """
            replicators:
              - { name: hub, database: main, target: "ws://127.0.0.1:\(try freePort())/main", type: push, continuous: true, max_attempt_wait_time: 1 }

            """)
        let saved = try await agent.put("main", "kept", #"{"_exp":"2099-12-31T23:59:59Z","a":1}"#)
        #expect(saved.status == 201, "\(saved)")
        #expect(try await agent.get("main", "kept").json["_exp"]?.asString == "2099-12-31T23:59:59Z")
        // It is no part of the revision, and not of the body either.
        let rev = try #require(try saved.json["rev"]?.asString)
        let same = try await agent.put("other", "kept", #"{"a":1}"#)
        #expect(try same.json["rev"]?.asString == rev)
        #expect(try await agent.get("other", "kept").json["_exp"] == nil)
        let edited = try await agent.put("main", "kept", #"{"_rev":"\#(rev)","a":2}"#)
        #expect(try await agent.get("main", "kept").json["_exp"]?.asString == "2099-12-31T23:59:59Z")

        try await agent.put("main", "short", #"{"_exp":1}"#)
        // A time that is past is refused however it is written; of a line of an import it may have come meanwhile.
        for past in ["1000000000", #""2001-09-09T01:46:40Z""#] {
            let refused = try await agent.put("main", "past", #"{"_exp":\#(past)}"#)
            #expect(refused.status == 400 && refused.text.contains("is a time in the year 2001, which is past; the document would be gone at once"), "\(refused)")
        }
        let imported = try await agent.command("import", "main", input: .text(#"{"_id":"past","_exp":"2020-01-01T00:00:00Z"}"# + "\n"))
        #expect(imported.output.hasPrefix("1 saved"), "\(imported)")
        try await agent.put("main", "freed", #"{"_exp":30}"#)
        let freed = try await agent.get("main", "freed").json["_rev"]?.asString ?? ""
        #expect(try await agent.put("main", "freed", #"{"_rev":"\#(freed)","_exp":null}"#).status == 201)
        for gone in ["short", "past"] { try await eventually("\(gone) goes") { try await !agent.has(gone) } }
        // Purged, and not deleted: nobody is told.
        #expect(try await agent.database("main")["collections"]?.asArray?.first?["deleted"] == 0)
        #expect(try await agent.has("freed"))
        #expect(try await agent.has("kept"))
        #expect(try await agent.command("audit").output.contains("purge of expired documents"))

        // Thirty-one days are a time in 1970: the document would be gone at once.
        let tooLong = try await agent.put("main", "wrong", #"{"_exp":2678400}"#)
        #expect(tooLong.status == 400 && tooLong.text.contains("2678400 is a time in the year 1970") && tooLong.text.contains("30 days"), "\(tooLong)")
        let refused = try await agent.put("main", "wrong", #"{"_exp":"tomorrow"}"#)
        #expect(refused.status == 400)
        #expect(refused.text.contains("_exp must be seconds from now"), "\(refused)")

        // A deletion ends it: a recreated document does not expire.
        let last = try #require(try edited.json["rev"]?.asString)
        let removed = try await agent.admin.request("DELETE", "/api/databases/main/documents/kept?rev=\(last)")
        let tombstone = try #require(try removed.json["rev"]?.asString)
        try await agent.put("main", "kept", #"{"_rev":"\#(tombstone)"}"#)
        #expect(try await agent.get("main", "kept").json["_exp"] == nil)
        #expect(try await agent.stop().status == 0)
    }

    @Test("doc why says when a document expires and why, and that a document which is gone has expired")
    func why() async throws {
        let agent = try await AgentProcess.start(Self.agent.replacing("main: {}", with: "main: { collections: [ plant.readings ], ttl: { plant.readings: 2 }, tombstone_age: 86400 }"))
        @Sendable func why(_ id: String, in place: String = "main") async throws -> JSONValue {
            try JSONValue(parsing: try await agent.command("doc", "why", place, id, "--json").output)["document"] ?? .null
        }
        try await agent.put("main", "long", #"{"_exp":4000000000}"#)
        let long = try await why("long")
        #expect(long["state"] == "here" && long["expires_at"] == "2096-10-02T07:06:40Z" && long["expires_by"] == "_exp", "\(long.text)")
        #expect(try await agent.command("doc", "why", "main", "long").output.contains("because of its _exp it is purged at 2096-10-02T07:06:40Z, pushed or not"))
        try await agent.put("main", "stays", "{}")
        #expect(try await why("stays")["expires_at"] == nil)

        try await agent.put("main", "short", #"{"_exp":1}"#)
        try await eventually("it expires") { try await why("short")["state"] == "expired" }
        let short = try await why("short")
        #expect(short["expired_by"] == "_exp" && short["text"]?.asString?.contains("it expired at 20") == true, "\(short.text)")
        // By the rule of its collection, which is for this collection only.
        try await agent.put("main.plant.readings", "old", #"{"_exp":4000000000}"#)
        let old = try await why("old", in: "main.plant.readings")
        if old["state"] == "here" { #expect(old["expires_by"] == "ttl" && old["text"]?.asString?.contains("because of its _exp it is purged") == true, "\(old.text)") }
        try await eventually("it is too old") { try await why("old", in: "main.plant.readings")["expired_by"] == "ttl" }
        // A purge by hand that came later is what is told.
        try await agent.put("main", "short", "{}")
        #expect(try await agent.command("doc", "purge", "main", "short").status == 0)
        #expect(try await why("short")["state"] == "purged")
        // A tombstone has an age of its own.
        let rev = try await agent.get("main", "stays").json["_rev"]?.asString ?? ""
        #expect(try await agent.admin.request("DELETE", "/api/databases/main/documents/stays?rev=\(rev)").status == 200)
        #expect(try await why("stays")["expires_by"] == "tombstone_age")
        #expect(try await agent.stop().status == 0)
    }

    @Test("an export includes the times, and an import applies them, even to documents that are otherwise unchanged")
    func importing() async throws {
        let agent = try await AgentProcess.start(Self.agent)
        try await agent.put("main", "a", #"{"_exp":4000000000,"n":1}"#)
        try await agent.put("main", "b", #"{"n":2}"#)
        let lines = try await agent.command("export", "main").output
        #expect(lines.contains(#""_exp":"2096-10-02T07:06:40Z""#), "\(lines)")
        for _ in 1...2 {
            #expect(try await agent.command("import", "other", input: .text(lines)).status == 0)
            #expect(try await agent.get("other", "a").json["_exp"]?.asString == "2096-10-02T07:06:40Z")
            #expect(try await agent.get("other", "b").json["_exp"] == nil)
        }
        #expect(try await agent.command("import", "other", input: .text(lines.replacing("2096", with: "2097"))).status == 0)
        #expect(try await agent.get("other", "a").json["_exp"]?.asString == "2097-10-02T07:06:40Z")
        #expect(try await agent.stop().status == 0)
    }

    @Test("the _exp that a peer pushes is accepted, and survives a restart; one that is not a time is refused")
    func pushing() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Self.agent, in: folder)
        let peer = try await Peer.connect(agent)
        #expect(try await peer.ask(Peer.revision("long", "1-aa", #"{"_exp":4000000000,"n":1}"#)).error == nil)
        #expect(try await peer.ask(Peer.revision("short", "1-bb", #"{"_exp":2}"#)).error == nil)
        let refused = try await peer.ask(Peer.revision("wrong", "1-cc", #"{"_exp":"soon"}"#))
        #expect(refused.error?.code == 400)
        #expect(try await agent.get("main", "long").json["_exp"]?.asString == "2096-10-02T07:06:40Z")
        try await peer.close()
        #expect(try await agent.stop().status == 0)
        let again = try await AgentProcess.start(Self.agent, in: folder)
        #expect(try await again.get("main", "long").json["_exp"]?.asString == "2096-10-02T07:06:40Z")
        try await eventually("the short one goes") { try await !again.has("short") }
        #expect(try await again.stop().status == 0)
    }
}
