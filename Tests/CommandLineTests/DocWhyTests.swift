import Documents
import Glibc
import TestSupport
import Testing

/// `nightjar doc why`: one answer to "why did this document not arrive?"
@Suite struct DocWhyTests {
    private static let plugins = [
        "fragile": "return {\n  push_filter = function(doc) if doc.odd then return doc.a.b end return not doc.private end\n}\n",
        "strict": "return {\n  pull_filter = function(doc) return not doc.bad end\n}\n",
    ]

    private static func folder() throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        for (name, text) in plugins { try folder.write("plugins/\(name).lua", text) }
        return folder
    }

    private static func why(_ agent: AgentProcess, _ id: String) async throws -> JSONValue {
        try await agent.command("doc", "why", "main", id, "--json").json
    }

    /// One replicator of an answer.
    private static func way(_ answer: JSONValue, _ name: String, _ way: String) -> JSONValue {
        answer["replicators"]?.asArray?.first { $0["name"]?.asString == name }?[way] ?? .null
    }

    @Test func theRemedyIsThatOfThePeersAnswer() async throws {
        // An authenticator that fails is 503.
        let folder = try TemporaryFolder()
        try folder.write("plugins/door.lua", "return { authenticate_password = function(name, password) return name.x.y end }\n")
        let ill = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, authenticator: door"), in: folder)
        let hub = try await AgentProcess.start(Configuration.plain)
        #expect(try await hub.put("main", "both", #"{"by":"hub"}"#).status == 201)
        let login = "authenticator: { username: ada, password: right }"
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n"
                + Configuration.replicator("ill", to: "ws://127.0.0.1:\(try ill.port("edge"))/main", more: login)
                + Configuration.replicator("hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main", more: "type: push"))
        #expect(try await edge.put("main", "both", #"{"by":"edge"}"#).status == 201)
        try await eventually("the document is refused") { try await edge.replicator("hub")["refused"] == 1 }
        // Between two attempts.
        try await eventually("the other one has its answer") {
            let connection = Self.way(try await Self.why(edge, "both"), "ill", "connection")["remedy"]?.asString ?? ""
            return connection.contains("answers with 503: check its log") && !connection.contains("can be reached")
        }
        let answer = try await Self.why(edge, "both")
        let push = Self.way(answer, "hub", "push")
        #expect(push["code"] == 409 && push["remedy"]?.asString?.contains("let the replicator pull too") == true, "\(answer.text)")
    }

    @Test func eachPlaceSaysWhereTheDocumentStands() async throws {
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, pull_filter: strict"), in: Self.folder())
        let target = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let edge = try await AgentProcess.start(
            Configuration.plain.replacing("plant.readings ] }\n", with: "plant.readings ] }\n  other: {}\n") + "replicators:\n"
                + Configuration.replicator("hub", to: target, more: "collections: { _default: { push_filter: fragile } }")
                + Configuration.replicator("away", to: "ws://127.0.0.1:1/main", more: "type: push")
                + Configuration.replicator("few", to: "ws://127.0.0.1:1/few", more: "collections: { _default: { document_ids: [ chosen ] } }")
                + Configuration.replicator("readings", to: "ws://127.0.0.1:1/readings", more: "collections: { plant.readings: {} }")
                + Configuration.replicator("elsewhere", to: "ws://127.0.0.1:1/x").replacing("database: main", with: "database: other"),
            in: Self.folder())
        for (id, body) in [("fine", "{}"), ("private", #"{"private":true}"#), ("odd", #"{"odd":1}"#), ("bad", #"{"bad":true}"#)] {
            #expect(try await edge.put("main", id, body).status == 201)
        }
        try await eventually("all is decided") {
            let hub = try await edge.replicator("hub")
            return hub["held"] == 1 && hub["refused"] == 1 && hub["pushed"] == 1 && hub["rejected"] == 1
        }
        try await eventually("the other one has failed") { try await edge.replicator("away")["activity"] == "offline" }

        let fine = try await Self.why(edge, "fine")
        #expect(fine["document"]?["state"] == "here" && Self.way(fine, "hub", "push")["state"] == "sent", "\(fine.text)")
        let away = Self.way(fine, "away", "push"), connection = Self.way(fine, "away", "connection")
        #expect(away["state"] == "pending" && connection["state"] == "offline", "\(fine.text)")
        #expect(connection["text"]?.asString?.contains("network/") == true && connection["remedy"]?.asString?.isEmpty == false)
        #expect(Self.way(fine, "away", "pull")["state"] == "not_pulled")
        #expect(Self.way(fine, "few", "push")["state"] == "excluded" && Self.way(fine, "few", "pull")["state"] == "excluded")
        #expect(Self.way(fine, "readings", "push")["state"] == "other_collection")
        #expect(Self.way(fine, "elsewhere", "state") == "other_database")

        let secret = Self.way(try await Self.why(edge, "private"), "hub", "push")
        #expect(secret["state"] == "rejected" && secret["plugin"] == "fragile", "\(secret.text)")
        let odd = Self.way(try await Self.why(edge, "odd"), "hub", "push")
        #expect(odd["state"] == "held" && odd["text"]?.asString?.contains("fragile.lua:2:") == true && odd["tries"] == 1, "\(odd.text)")
        let bad = Self.way(try await Self.why(edge, "bad"), "hub", "push")
        #expect(bad["state"] == "refused" && bad["domain"] == "http" && bad["code"] == 403, "\(bad.text)")
        #expect(bad["remedy"]?.asString?.hasSuffix("it is offered again by itself, with each new connection and at least once an hour; at once with nightjar replicator hub retry-refused") == true)

        // The same for people.
        let text = try await edge.command("doc", "why", "main", "odd")
        #expect(text.status == 0, "\(text)")
        #expect(text.output.contains("  push: held: held after 1 try: the filter fragile fails on it: ") && text.output.contains("-> fix the plugin"), "\(text)")
    }

    /// What a peer that pulls took and did not store is not called sent, not even once it has reconnected.
    @Test func aHubSaysWhatItsPeerMadeOfADocument() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let photo = "the bytes of a photo"
        let digest = try #require(try await hub.command("blob", "put", "main", input: .text(photo)).lines.first)
        let named = "{\"file\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":\(photo.utf8.count)}}"
        for (id, body) in [("fine", "{}"), ("bad", #"{"bad":true}"#), ("odd", #"{"odd":1}"#), ("photo", named)] {
            #expect(try await hub.put("main", id, body).status == 201)
        }
        #expect(unlink(hub.folder.path("data/main.nightjar/blobs/\(try BlobDigest(digest).hex)")) == 0)
        let folder = try TemporaryFolder()
        try folder.write("plugins/picky.lua", "return {\n  pull_filter = function(doc) if doc.odd then return doc.a.b end return not doc.bad end\n}\n")
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n"
                + Configuration.replicator(
                    "hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main", more: "type: pull\n    collections: { _default: { pull_filter: picky } }"), in: folder)
        @Sendable func listener(_ id: String) async throws -> JSONValue { try await Self.why(hub, id)["listeners"]?.asArray?.first ?? .null }
        @Sendable func states() async throws -> [String?] {
            var found: [String?] = []
            for id in ["fine", "bad", "odd", "photo"] { found.append(try await listener(id)["peers"]?.asArray?.first?["state"]?.asString) }
            return found
        }
        try await eventually("each has its answer") { try await states() == ["sent", "rejected_there", "held_there", "held_there"] }
        let photoText = try await listener("photo")["peers"]?.asArray?.first?["text"]?.asString ?? ""
        #expect(photoText.contains("holds it back") && photoText.contains("a blob of it"), "\(photoText)")
        // With its checkpoint saved it begins behind them then; what it said of those that it took is not remembered.
        try await eventually("it is idle") { try await edge.replicator("hub")["activity"] == "idle" }
        #expect(try await edge.command("replicator", "hub", "stop").status == 0)
        try await eventually("it is gone") { try await listener("bad")["peers"]?.asArray?.isEmpty == true }
        let gone = try await listener("bad")["kept_by_peers"]?.asArray?.first
        #expect(gone?["state"] == "rejected_there" && gone?["since"]?.asString?.hasPrefix("20") == true, "\(gone?.text ?? "")")
        #expect(try await hub.command("doc", "why", "main", "bad").output.contains("127.0.0.1: rejected_there: the peer took 1-"))
        #expect(try await edge.command("replicator", "hub", "start").status == 0)
        try await eventually("the answers are known still") { try await states() == ["told", "rejected_there", "held_there", "held_there"] }
    }

    @Test func aPeerThatHangsIsNamedAsSuch() async throws {
        let hub = try await AgentProcess.start(Configuration.plain)
        let target = "ws://127.0.0.1:\(try hub.port("edge"))/main"
        let edge = try await AgentProcess.start(Configuration.plain + "replicators:\n" + Configuration.replicator("hub", to: target))
        #expect(try await edge.put("main", "a", "{}").status == 201)
        try await eventually("the peer has the first") { Self.way(try await Self.why(edge, "a"), "hub", "push")["state"] == "sent" }
        try await eventually("it is idle") { try await edge.replicator("hub")["activity"] == "idle" }
        #expect(Self.way(try await Self.why(edge, "a"), "hub", "connection").isNull)
        hub.process.send(SIGSTOP)
        defer { hub.process.send(SIGCONT) }
        #expect(try await edge.put("main", "b", "{}").status == 201)
        try await eventually("it owes an answer", within: .seconds(60)) {
            let connection = Self.way(try await Self.why(edge, "b"), "hub", "connection")
            return connection["state"] == "unanswered" && connection["remedy"]?.asString?.contains(target) == true
        }
        #expect(try await edge.command("doc", "why", "main", "b").output.contains("unanswered: connected, but the peer owes a reply and sends nothing, since 20"))
        // It goes as soon as the peer answers: nothing would be gained by beginning anew.
        let waiting = Self.way(try await Self.why(edge, "b"), "hub", "push")
        #expect(waiting["state"] == "pending" && waiting["remedy"]?.asString?.contains("--reset") == false, "\(waiting.text)")
        try await eventually("it needs attention", within: .seconds(90)) { try await edge.admin.get("/health").text.contains("peer_unanswered") }
        hub.process.send(SIGCONT)
        try await eventually("it is over once the peer answers") {
            let isIdle = try await edge.replicator("hub")["activity"] == "idle"
            return try await !edge.admin.get("/health").text.contains("peer_unanswered") && isIdle
        }
    }

    @Test func whatIsNotHereIsSaidToo() async throws {
        let agent = try await AgentProcess.start(Configuration.plain + "replicators:\n" + Configuration.replicator("away", to: "ws://127.0.0.1:1/main"))
        let unknown = try await Self.why(agent, "nobody")
        #expect(unknown["document"]?["state"] == "unknown" && Self.way(unknown, "away", "push")["state"] == "nothing_here", "\(unknown.text)")
        #expect(Self.way(unknown, "away", "pull")["state"] == "not_given")
        let told = try await agent.command("doc", "why", "main", "nobody")
        #expect(told.status == 3 && told.output.contains("ids are compared letter for letter"), "\(told)")
        let help = try await NightjarExecutable.run("doc", "why", "--help").output.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("3 if nothing here knows the id"))
        #expect(try await agent.put("main", "gone", "{}").status == 201)
        #expect(try await agent.command("doc", "purge", "main", "gone").status == 0)
        let purged = try await agent.command("doc", "why", "main", "gone")
        #expect(purged.status == 0 && purged.output.contains("purged: it was purged at 20"), "\(purged)")
        // Its collection, in either way; and what does not exist.
        #expect(try await agent.command("doc", "why", "main", "a", "--collection", "plant.readings").output.contains("collection plant.readings"))
        #expect(try await agent.command("doc", "why", "main.plant.readings", "a").output.contains("other_collection"))
        let wrong = try await agent.command("doc", "why", "main", "a", "--collection", "nowhere")
        #expect(wrong.status == 1 && wrong.errors.contains("has no collection"), "\(wrong)")
        #expect(try await agent.command("doc", "why", "none", "a").status == 1)
    }

    @Test func thatADocumentIsInNoChannelIsSaidWithoutAPeer() async throws {
        let folder = try Self.folder()
        try folder.write("plugins/place.lua", "return {\n  sync = function(doc)\n    if doc.broken then error('no') end\n    channel('north')\n  end\n}\n")
        let agent = try await AgentProcess.start(
            Configuration.plain.replacing("plant.readings ] }\n", with: "plant.readings ] }\n  other: {}\n  lonely: {}\n")
                .replacing("disable_tls: true }", with: "disable_tls: true, sync: place }\n  - { name: aside, databases: [ other ], port: 0, interface: 127.0.0.1, disable_tls: true }"),
            in: folder)
        for (id, body) in [("lost", #"{"broken":true}"#), ("fine", "{}")] { #expect(try await agent.put("main", id, body).status == 201) }
        try await eventually("both were looked at") {
            let lost = try await Self.why(agent, "lost")["listeners"]?.asArray ?? [], fine = try await Self.why(agent, "fine")["listeners"]?.asArray ?? []
            return lost.first?["unrouted"]?["text"]?.asString?.contains("place.lua:3:") == true && fine.first?["unrouted"]?.isNull == true
        }
        let lost = try await agent.command("doc", "why", "main", "lost")
        #expect(lost.output.contains("  unrouted: sync function place could not put it into channels: ") && !lost.output.contains("name main in its databases"), "\(lost)")
        #expect(try await !agent.command("doc", "why", "main", "fine").output.contains("in its databases"))
        // No listener serves it.
        #expect(try await agent.command("doc", "why", "lonely", "fine").output.contains("name lonely in its databases"))
    }

    @Test func aPulledDocumentAndThePeersOfAListener() async throws {
        let hubFolder = try Self.folder()
        try hubFolder.write(
            "plugins/place.lua", "return {\n  sync = function(doc)\n    if doc.broken then error('no') end\n    channel(doc.channels or {})\n  end\n}\n")
        try hubFolder.write(
            "plugins/door.lua",
            "return {\n  authenticate_password = function(name, password) return { name = name, channels = { 'north' } } end\n}\n")
        let hub = try await AgentProcess.start(
            Configuration.plain.replacing("disable_tls: true", with: "disable_tls: true, sync: place, authenticator: door"), in: hubFolder)
        let edge = try await AgentProcess.start(
            Configuration.plain + "replicators:\n"
                + Configuration.replicator(
                    "hub", to: "ws://127.0.0.1:\(try hub.port("edge"))/main",
                    more: "collections: { _default: { pull_filter: strict } }\n    authenticator: { username: ada, password: p }"),
            in: Self.folder())
        for (id, body) in [
            ("ours", #"{"channels":["north"]}"#), ("theirs", #"{"channels":["south"]}"#), ("lost", #"{"broken":true}"#),
            ("bad", #"{"channels":["north"],"bad":true}"#),
        ] {
            #expect(try await hub.put("main", id, body).status == 201)
        }
        try await eventually("what may come has come") {
            guard try await edge.get("main", "ours").status == 200 else { return false }
            return try await edge.replicator("hub")["rejected"] == 1
        }
        let bad = Self.way(try await Self.why(edge, "bad"), "hub", "pull")
        #expect(bad["state"] == "rejected" && bad["plugin"] == "strict" && bad["rev"]?.isNull == false, "\(bad.text)")
        // It is here as little as one that nobody knows, and is not taken for one.
        let kept = try await edge.command("doc", "why", "main", "bad")
        #expect(kept.status == 0 && kept.output.contains(": not_here: it is not in this database"), "\(kept)")
        #expect(!kept.output.contains("letter for letter") && !kept.output.contains("never arrived"), "\(kept)")
        #expect(Self.way(try await Self.why(edge, "theirs"), "hub", "pull")["state"] == "not_given")
        #expect(Self.way(try await Self.why(edge, "ours"), "hub", "pull")["state"] == "known")

        // What has expired is not looked for at the remote.
        #expect(try await edge.put("main", "brief", #"{"_exp":1}"#).status == 201)
        try await eventually("it expires") { try await Self.why(edge, "brief")["document"]?["state"] == "expired" }
        let brief = Self.way(try await Self.why(edge, "brief"), "hub", "pull")
        #expect(brief["state"] == "not_given" && brief["remedy"]?.isNull == true, "\(brief.text)")

        func peer(_ id: String) async throws -> JSONValue {
            try await Self.why(hub, id)["listeners"]?.asArray?.first?["peers"]?.asArray?.first ?? .null
        }
        let sent = try await peer("ours")
        #expect(sent["state"] == "sent" && sent["user"] == "ada", "\(sent.text)")
        let theirs = try await peer("theirs")
        #expect(theirs["state"] == "not_in_channels" && theirs["document_channels"] == ["south"] && theirs["peer_channels"] == ["north"], "\(theirs.text)")
        let lost = try await peer("lost")
        #expect(lost["state"] == "unrouted" && lost["text"]?.asString?.contains("place.lua:3:") == true, "\(lost.text)")
        let text = try await hub.command("doc", "why", "main", "theirs")
        #expect(text.output.contains("(ada): not_in_channels: it is in channel south, and the peer gets channel north"), "\(text)")
    }
}
