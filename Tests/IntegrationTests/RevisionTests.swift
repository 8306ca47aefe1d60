import BLIP
import Digests
import Documents
import NIOCore
import TestSupport
import Testing

/// `rev` messages that cannot be stored: each is refused by itself, the connection and everything else goes on.
@Suite("Revisions that are refused", .serialized,
    .agent(Configuration.hub(more: "  - { name: closed, databases: [ main ], interface: 127.0.0.1, port: 0, disable_tls: true, read_only: true }")))
struct RevisionTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let codes: [Int]
        let request: @Sendable () -> OutgoingRequest

        init(_ what: String, _ codes: Int..., request: @escaping @Sendable () -> OutgoingRequest) {
            testDescription = what
            self.codes = codes
            self.request = request
        }
    }

    private static func nested(_ depth: Int) -> String {
        "{\"a\":" + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
    }

    static let bodies: [Case] = [
        .init("a body that is not JSON", 400) { Peer.revision("b1", "1-aa", "{\"a\":1") },
        .init("a body of plain text", 400) { Peer.revision("b2", "1-aa", "hello") },
        .init("an array", 400) { Peer.revision("b3", "1-aa", "[1,2,3]") },
        .init("a number", 400) { Peer.revision("b4", "1-aa", "17") },
        .init("null", 400) { Peer.revision("b5", "1-aa", "null") },
        .init("no body", 400) { Peer.revision("b6", "1-aa", "") },
        .init("two objects", 400) { Peer.revision("b7", "1-aa", "{}{}") },
        .init("deeper than 100 levels", 400) { Peer.revision("b8", "1-aa", Self.nested(101)) },
        .init("a number that no double holds", 400) { Peer.revision("b19", "1-aa", #"{"a":[1e400]}"#) },
        .init("an empty key", 400) { Peer.revision("b20", "1-aa", #"{"a":{"":1}}"#) },
        .init("a key with NUL", 400) { Peer.revision("b21", "1-aa", #"{"a\u0000b":1}"#) },
        .init("100,000 levels", 400) { Peer.revision("b9", "1-aa", Self.nested(100_000)) },
        .init("a string that is not UTF-8", 400) { Peer.revision("b10", bytes: Array("{\"a\":\"".utf8) + [0xC3, 0x28] + Array("\"}".utf8)) },
        .init("UTF-16 surrogates in UTF-8", 400) { Peer.revision("b11", bytes: Array("{\"a\":\"".utf8) + [0xED, 0xA0, 0x80] + Array("\"}".utf8)) },
        .init("a raw control character", 400) { Peer.revision("b12", "1-aa", "{\"a\":\"\u{1}\"}") },
        .init("a key that appears twice", 400) { Peer.revision("b14", "1-aa", #"{"owner":"ann","n":{"x":1},"owner":"eve"}"#) },
        .init("_deleted that is no boolean", 400) { Peer.revision("b15", "1-aa", #"{"_deleted":"false"}"#) },
        .init("_id that is no string", 400) { Peer.revision("b16", "1-aa", #"{"_id":7}"#) },
        .init("_removed that is no boolean", 400) { Peer.revision("b17", "1-aa", #"{"_removed":1}"#) },
        .init("a reserved key that nobody knows", 400) { Peer.revision("b18", "1-aa", #"{"a":1,"\u005fowner":"ann"}"#) },
        .init("a delta whose base is not here", 422) {
            var request = Peer.revision("b13", "2-bb", "{\"a\":[2]}", history: "1-aa")
            request.properties.append("deltaSrc", "1-aa")
            return request
        },
    ]

    static let identities: [Case] = [
        .init("no document id", 400) {
            OutgoingRequest(profile: "rev", properties: ["rev": "1-aa", "sequence": "1"], body: .init(string: "{}"))
        },
        .init("no revision id", 400) {
            OutgoingRequest(profile: "rev", properties: ["id": "i", "sequence": "1"], body: .init(string: "{}"))
        },
        .init("an empty document id", 400) { Peer.revision("") },
        .init("a document id of 241 bytes", 400) { Peer.revision(String(repeating: "x", count: 241)) },
        .init("a document id of 90,000 bytes", 400) { Peer.revision(String(repeating: "x", count: 90_000)) },
        .init("a document id that starts with _", 400) { Peer.revision("_design/x") },
        .init("a document id with a line break", 400) { Peer.revision("a\nb") },
        .init("a document id with DEL", 400) { Peer.revision("a\u{7F}b") },
        .init("a revision without a generation", 400) { Peer.revision("r1", "abcdef") },
        .init("generation 0", 400) { Peer.revision("r2", "0-aa") },
        .init("a negative generation", 400) { Peer.revision("r3", "-1-aa") },
        .init("a generation beyond 2^53", 400) { Peer.revision("r4", "99999999999999999999999999-aa") },
        .init("a generation beyond revisionGeneration", 422) { Peer.revision("r11", "\(DocumentLimits.revisionGeneration + 1)-aa") },
        .init("an uppercase digest", 400) { Peer.revision("r5", "1-AA") },
        .init("a digest of odd length", 400) { Peer.revision("r6", "1-abc") },
        .init("an empty digest", 400) { Peer.revision("r7", "1-") },
        .init("a digest of 10,000 digits", 400) { Peer.revision("r8", "1-" + String(repeating: "ab", count: 5_000)) },
        .init("a version of a version vector", 400) { Peer.revision("r9", "17f1dcb1f60000@AAAAAAAAAAAAAAAAAAAAAA") },
        .init("ids with markup and newlines in the revision", 400) { Peer.revision("r10", "1-aa\n<script>") },
    ]

    static let histories: [Case] = [
        .init("a history that is no list of revisions", 400) { Peer.revision("h1", "2-bb", history: "hello") },
        .init("a history that goes up", 400, 422) { Peer.revision("h2", "2-bb", history: "3-aa") },
        .init("a history that names its own generation", 400, 422) { Peer.revision("h4", "2-bb", history: "2-aa,1-aa") },
        .init("a history in the wrong order", 400, 422) { Peer.revision("h5", "4-bb", history: "1-aa,2-aa,3-aa") },
        .init("a history of 5,000 revisions", 400, 413, 422) {
            Peer.revision("h6", "6000-bb", history: (0..<5_000).map { "\(5999 - $0)-aa" }.joined(separator: ","))
        },
        .init("a history that does not join the document's", 400, 409, 422) { Peer.revision("joined", "3-bb", history: "2-ee,1-ee") },
        .init("a second first revision", 400, 409, 422) { Peer.revision("joined", "1-ff") },
    ]

    @Test("are answered with their error; the next good one is taken", arguments: bodies + identities + histories)
    func refused(_ wrong: Case) async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let peer = try await Peer.connect(agent)
        _ = try await peer.ask(Peer.revision("joined", "1-aa"))
        _ = try await peer.ask(Peer.revision("joined", "2-bb", history: "1-aa"))
        // Wrong and right together in one batch: the right ones do not suffer.
        let good = "good-\(UInt64.random(in: 0 ... .max))"
        let replies = try await peer.ask([Peer.revision(good), wrong.request(), Peer.revision(good + "-2")])
        #expect(replies[0].error == nil)
        let error = try #require(replies[1].error)
        #expect(error.domain == "HTTP")
        #expect(wrong.codes.contains(error.code), "\(error)")
        #expect(!error.message.isEmpty && error.message.utf8.count < 1000, "\(error)")
        #expect(replies[2].error == nil)
        #expect(try await agent.get("main", good + "-2").status == 200)
        #expect(try await agent.field("_rev", of: "joined")?.asString == "2-bb")
        try await peer.close()
        try await bystander.leave()
    }

    @Test("a document id that is not UTF-8")
    func idNotUTF8() async throws {
        let agent = try sharedAgent()
        let socket = try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync")
        var frames = HandmadeFrames()
        func rev(_ id: [UInt8]) -> [UInt8] {
            let properties = HandmadeFrames.properties(("Profile", "rev"), ("rev", "1-aa"), ("sequence", "1")) + Array("id".utf8) + [0] + id + [0]
            return frames.request(properties: properties, body: Array("{}".utf8))
        }
        let before = try await agent.documents("main")
        try await socket.send(rev([0x61, 0xFF, 0xFE, 0x62]))
        var reply = HandmadeFrames.reply(try #require(try await socket.receive()).payload)
        #expect(reply?.type == 2)
        #expect(reply?.properties == "Error-Domain|HTTP|Error-Code|400|", "\(String(describing: reply))")
        try await socket.send(rev(Array("right".utf8)))
        reply = HandmadeFrames.reply(try #require(try await socket.receive()).payload)
        #expect(reply?.type == 1, "\(String(describing: reply))")
        #expect(try await agent.documents("main") == before + 1)
    }

    @Test("a document above 20 MiB is 413, one just below is stored, byte for byte")
    func large() async throws {
        let agent = try sharedAgent()
        let bystander = try await Bystander(agent)
        let peer = try await Peer.connect(agent)
        func body(_ size: Int) -> [UInt8] { Array("{\"a\":\"".utf8) + Array(repeating: 0x78, count: size - 8) + Array("\"}".utf8) }
        let refused = try await peer.ask(Peer.revision("large", bytes: body((20 << 20) + 1)))
        #expect(refused.error?.domain == "HTTP")
        #expect(refused.error?.code == 413)
        #expect(refused.error?.message.contains("20971520") == true, "\(String(describing: refused.error))")
        try await bystander.goesOn()
        let taken = try await peer.ask(Peer.revision("large", bytes: body(20 << 20)))
        #expect(taken.error == nil)
        let stored = try await agent.get("main", "large")
        #expect(stored.status == 200)
        #expect(stored.body.count > 20 << 20)
        try await peer.push("after-large")
        try await peer.close()
        try await bystander.leave()
    }

    @Test("100 levels, numbers beyond 64 bits and unusual white space are kept as they came")
    func unusual() async throws {
        let agent = try sharedAgent()
        let peer = try await Peer.connect(agent)
        let bodies = [Self.nested(100), "{ \"n\" : 123456789012345678901234567890.5e10 ,\n\t\"m\": -0 }", "{\"\\u0041\":\"\\ud83d\\ude00\"}"]
        for (index, body) in bodies.enumerated() {
            try await peer.push("unusual-\(index)", "1-aa", body)
            let text = try await agent.get("main", "unusual-\(index)").text
            #expect(text == "{\"_id\":\"unusual-\(index)\",\"_rev\":\"1-aa\",\(body.dropFirst())\n")
        }
        try await peer.close()
    }

    @Test("a read-only listener refuses each rev with 403, and the pull continues")
    func readOnly() async throws {
        let agent = try sharedAgent()
        let writer = try await Peer.connect(agent)
        try await writer.push("to-be-read")
        let reader = Peer(try await WebSocketProbe.connect(port: try agent.port("closed"), path: "/main/_blipsync"))
        // Couchbase Lite would stop permanently if its proposals were refused; a Nightjar goes by the property, and sends nothing.
        for (peer, isClosed) in [(reader, true), (writer, false)] {
            let proposals = try await peer.ask(OutgoingRequest(profile: "proposeChanges", body: .init(string: "[[\"proposed\",\"1-aa\"]]")))
            #expect(proposals.error == nil && String(buffer: proposals.body) == "[]", "\(proposals)")
            #expect(proposals.properties["refusesRevs"]?.contains("read-only") ?? false == isClosed, "\(proposals)")
        }
        let had = try await reader.ask(OutgoingRequest(profile: "proposeChanges", body: .init(string: "[[\"to-be-read\",\"1-aa\"]]")))
        #expect(String(buffer: had.body) == "[304]" && had.properties["refusesRevs"] == nil, "\(had)")
        let replies = try await reader.ask([Peer.revision("written"), Peer.revision("written-too")])
        #expect(replies.map(\.error?.domain) == ["HTTP", "HTTP"])
        #expect(replies.map(\.error?.code) == [403, 403])
        #expect(try await reader.pull()["to-be-read"] == "1-aa")
        #expect(try await reader.ask(Peer.revision("written-again")).error?.code == 403)
        #expect(try await agent.get("main", "written").status == 404)
        try await reader.close()
        try await writer.close()
    }

    @Test("lists and subscriptions that make no sense are refused", arguments: [
        ("proposeChanges", "hello"), ("proposeChanges", "{}"), ("proposeChanges", "[[1]]x"), ("changes", "[[1,\"a\",\"1-aa\"]]"),
        ("subChanges", "[]"), ("subChanges", "{\"docIDs\":7}"), ("getCollections", "x"), ("getCollections", "{\"collections\":7}"),
        ("setCheckpoint", "x"), ("getCheckpoint", ""), ("getAttachment", ""), ("proveAttachment", ""),
    ])
    func wrongLists(_ profile: String, _ body: String) async throws {
        let agent = try sharedAgent()
        let peer = try await Peer.connect(agent)
        let reply = try await peer.ask(OutgoingRequest(profile: profile, body: .init(string: body)))
        let error = try #require(reply.error)
        #expect((400..<500).contains(error.code), "\(error)")
        if profile != "getCollections" { try await peer.push("after-\(profile)-\(body.utf8.count)") }
        #expect(try await agent.isWell())
        try await peer.close()
    }

    @Test("a wrong row does not affect the others of its list")
    func wrongRow() async throws {
        let agent = try sharedAgent()
        let peer = try await Peer.connect(agent)
        let rows = "[[\"p1\",\"1-aa\"],[\"\",\"1-aa\"],[\"p2\",\"1-XX\"],17,[\"_p3\",\"1-aa\"],[\"p4\",\"1-aa\"]]"
        let reply = try await peer.ask(OutgoingRequest(profile: "proposeChanges", body: .init(string: rows)))
        #expect(reply.error == nil)
        #expect(String(buffer: reply.body) == "[0,400,400,400,400]")
        try await peer.push("p1")
        try await peer.push("p4")
        try await peer.close()
    }
}
