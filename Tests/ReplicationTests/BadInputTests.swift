import BLIP
import Documents
import NIOCore
import Replication
import Testing
import Transport

/// A peer that breaks the protocol gets the right error, the session survives, and other documents are not affected.
@Suite(.timeLimit(.minutes(10)))
struct BadInputTests {
    private static let revision = "1-abcdef0000000000000000000000000000000001"

    private func session() async throws -> (TestDatabase, Peer) {
        let database = try TestDatabase("b")
        let peer = try await Peer(Hub(database))
        #expect(await peer.begin()?.error == nil)
        return (database, peer)
    }

    private func rev(_ id: String?, _ revision: String? = revision, _ more: [(String, String)] = []) -> [(String, String)] {
        var properties = [("collection", "0")]
        if let id { properties.append(("id", id)) }
        if let revision { properties.append(("rev", revision)) }
        return properties + more
    }

    private func expect(_ reply: IncomingReply?, _ code: Int, _ comment: Comment, domain: String = "HTTP") {
        #expect(reply?.error?.code == code && reply?.error?.domain == domain, "\(comment): \(String(describing: reply?.error))")
        #expect(reply?.error?.message.isEmpty == false, comment)
    }

    @Test func bodiesOfRevisions() async throws {
        let (database, peer) = try await session()
        let deep = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
        for body in ["", "nonsense", "[1,2]", "7", "null", "{\"a\":}", "{\"a\":1", "{\"a\":\(deep)}", "{\"a\":1}x", "{'a':1}", #"{"a":1,"\u0061":2}"#] {
            expect(await peer.ask("rev", rev("bad"), body), 400, "\(body.prefix(20))")
        }
        #expect(try await database.get("bad") == nil)
        let large = "{\"x\":\"" + String(repeating: "x", count: 20 << 20) + "\"}"
        expect(await peer.ask("rev", rev("large"), large, compressed: true), 413, "too large")
        #expect(await peer.ask("rev", rev("tombstone", Self.revision, [("deleted", "1")]))?.error == nil)
        #expect(await peer.ask("rev", rev("good"), "{\"ok\":true}")?.error == nil)
        #expect(try await database.body("good") == "{\"ok\":true}")
        #expect(try await database.get("tombstone")?.isDeleted == true)
        #expect(await peer.isAlive())
    }

    @Test func reservedKeysOfBodies() async throws {
        let (database, peer) = try await session()
        for (body, word) in [
            (#"{"_deleted":"yes"}"#, "_deleted"), (#"{"_deleted":null}"#, "_deleted"), (#"{"_id":{"x":1}}"#, "_id"), (#"{"_rev":2}"#, "_rev"),
            (#"{"_removed":"true"}"#, "_removed"), (#"{"_owner":"ann"}"#, "_owner"), (#"{"\u005fowner":"ann"}"#, "_owner"),
        ] {
            let reply = await peer.ask("rev", rev("bad"), body)
            expect(reply, 400, "\(body)")
            #expect(reply?.error?.message.contains(word) == true, "\(body)")
        }
        #expect(try await database.get("bad") == nil)
        // What Sync Gateway and Couchbase Lite write.
        let known = #"{"_id":"good","_rev":"1-aa","_deleted":false,"_exp":1700000000,"_cv":"x","_vv":{},"_sync":{},"_sync_x":1,"_revisions":{},"_attachments":{},"a":1}"#
        #expect(await peer.ask("rev", rev("good"), known)?.error == nil)
        #expect(try await database.body("good") == #"{"a":1}"#)
        #expect(await peer.isAlive())
    }

    @Test func propertiesOfRevisions() async throws {
        let (database, peer) = try await session()
        for properties in [
            rev(nil), rev("x", nil), rev(""), rev("_reserved"), rev("a\u{1}b"), rev(String(repeating: "i", count: 241)),
            rev("x", ""), rev("x", "abc"), rev("x", "0-ab"), rev("x", "1-ABCD"), rev("x", "1-abc"), rev("x", "01-abcd"), rev("x", "-1-abcd"),
            rev("x", "17f@AAAAAAAAAAAAAAAAAAAAAA"), rev("x", "2-bb", [("history", "zz")]), rev("x", "99999999999999999999-ab"),
        ] {
            expect(await peer.ask("rev", properties, "{}"), 400, "\(properties.map { "\($0.0)=\($0.1.prefix(30))" })")
        }
        // Histories whose generations do not descend one by one.
        for history in ["5-cc", "1-cc,3-bb"] {
            let reply = await peer.ask("rev", rev("x", "3-aa", [("history", history)]), "{}")
            #expect(reply?.error.map { $0.code == 400 || $0.code == 422 } == true, "\(history): \(String(describing: reply?.error))")
        }
        let long = (0..<1_100).reversed().map { "\($0 + 1)-\(String(repeating: "a", count: 40))" }.joined(separator: ",")
        expect(await peer.ask("rev", rev("x", "1101-aa", [("history", long)]), "{}"), 413, "long history")
        expect(await peer.ask("rev", rev("x", "2-aa", [("deltaSrc", "1-bb")]), "{}"), 422, "a delta without its base")
        expect(await peer.ask("rev", rev("x", Self.revision, [("error", "404")]), "{}"), 502, "an error in place of a revision")
        #expect(try await database.get("x") == nil)
        // Spaces in a history, as in the documentation, and a made-up ancestor.
        #expect(await peer.ask("rev", rev("y", "3-aa", [("history", "2-faded000aabbccdd, 1-cc")]), "{}")?.error == nil)
        let collection = try database.collection()
        #expect(try await database.database.read { try $0.tree(collection, doc("y")) }?.contains(RevisionID(stored: "1-cc")) == true)
        #expect(await peer.isAlive())
    }

    @Test func conflictsAndRecreation() async throws {
        let (database, peer) = try await session()
        #expect(await peer.ask("rev", rev("x", "1-aa"), "{}")?.error == nil)
        #expect(await peer.ask("rev", rev("x", "1-aa"), "{}")?.error == nil)
        expect(await peer.ask("rev", rev("x", "1-bb"), "{}"), 409, "another first revision")
        expect(await peer.ask("rev", rev("x", "3-bb", [("history", "2-cc,1-dd")]), "{}"), 409, "another branch")
        #expect(await peer.ask("rev", rev("x", "2-cc", [("history", "1-aa"), ("deleted", "1")]), "{}")?.error == nil)
        #expect(await peer.ask("rev", rev("x", "1-ee"), "{\"again\":true}")?.error == nil)
        #expect(try await database.body("x") == "{\"again\":true}")
    }

    @Test func proposals() async throws {
        let (database, peer) = try await session()
        try await database.insert("here", "2-bb", ["1-aa"], body: "{}")
        try await database.insert("gone", "2-bb", ["1-aa"], deleted: true)
        let rows = """
            [["here","2-bb","1-aa"],["here","3-cc","2-bb"],["here","3-cc","1-aa"],["here","1-zz"],["","1-aa"],["new","1-aa"],["new2","1-aa",null],
            ["gone","1-cc"],["gone","3-cc","2-bb"],["gone","3-cc","1-aa"],7,["x"],["new3","2-bb","1-aa"],["new4","1-aa",""]]
            """
        let reply = await peer.ask("proposeChanges", [("collection", "0"), ("conflictIncludesRev", "true")], rows)
        #expect(reply.map { String(buffer: $0.body) } == "[304,0,{\"status\":409,\"rev\":\"2-bb\"},400,400,0,0,0,0,{\"status\":409,\"rev\":\"2-bb\"},400,400]")
        #expect(reply?.properties["maxHistory"] == "50" && reply?.properties["blobs"] == "true")
        // Without the property a conflict is reported as a bare number, which the oldest clients understand.
        let old = await peer.ask("proposeChanges", [("collection", "0")], "[[\"here\",\"3-cc\",\"1-aa\"]]")
        #expect(old.map { String(buffer: $0.body) } == "[409]")
        for body in ["", "[]", "null"] {
            #expect(await peer.ask("proposeChanges", [("collection", "0")], body).map { String(buffer: $0.body) } == "[]")
        }
        for body in ["{}", "7", "[", "\"x\""] { expect(await peer.ask("proposeChanges", [("collection", "0")], body), 400, "\(body)") }
        let many = "[" + Array(repeating: "[\"d\",\"1-aa\"]", count: 1_001).joined(separator: ",") + "]"
        expect(await peer.ask("proposeChanges", [("collection", "0")], many), 413, "too many rows")
        expect(await peer.ask("proposeChanges", [("collection", "0")], String(repeating: " ", count: 5 << 20)), 413, "too many bytes")
        #expect(await peer.isAlive())
    }

    @Test func collectionsAndModes() async throws {
        let (_, peer) = try await session()
        for collection in ["7", "-1", "x", "", "99999999999999999999"] {
            expect(await peer.ask("getCheckpoint", [("client", "c"), ("collection", collection)]), 400, "\(collection)")
        }
        for profile in ["getCheckpoint", "setCheckpoint", "subChanges", "proposeChanges", "rev", "norev", "getAttachment"] {
            expect(await peer.ask(profile, [("client", "c")], "[]"), 400, "\(profile)")
        }
        expect(await peer.begin(), 400, "twice", domain: "BLIP")
        expect(await peer.ask("nonsense", [("collection", "0")]), 404, "unknown", domain: "BLIP")
        #expect(await peer.ask("", [])?.error?.message == "no handler for message")
        expect(await peer.ask("changes", [("collection", "0")], "[[1,\"a\",\"1-aa\"]]"), 409, "changes to a listener")
        #expect(await peer.isAlive())

        let legacy = try await Peer(Hub(try TestDatabase("b")))
        #expect(await legacy.ask("getCheckpoint", [("client", "c")])?.error?.code == 404)
        expect(await legacy.ask("getCheckpoint", [("client", "c"), ("collection", "0")]), 400, "a collection in legacy mode")
        expect(await legacy.begin(), 400, "not the first message", domain: "BLIP")

        for body in [
            "", "[]", "{", "{\"checkpoint_ids\":[],\"collections\":[]}", "{\"checkpoint_ids\":[\"a\"],\"collections\":[]}",
            "{\"checkpoint_ids\":[\"a\",\"b\"],\"collections\":[\"_default\",\"_default._default\"]}", "{\"checkpoint_ids\":[1],\"collections\":[\"_default\"]}",
            "{\"checkpoint_ids\":[\"\"],\"collections\":[\"_default\"]}",
        ] {
            let other = try await Peer(Hub(try TestDatabase("b")))
            expect(await other.ask("getCollections", [], body), 400, "\(body)", domain: "BLIP")
            // A second, correct request is served.
            #expect(await other.begin()?.error == nil)
        }
        let unknown = try await Peer(Hub(try TestDatabase("b")))
        #expect(await unknown.begin(["_default", "no.such", "*"]).map { String(buffer: $0.body) } == "[{},null,null]")
        expect(await unknown.ask("subChanges", [("collection", "0")]), 400, "after a null")
    }

    @Test func checkpoints() async throws {
        let (_, peer) = try await session()
        func set(_ rev: String?, _ body: String, _ client: String = "cp/+=") async -> IncomingReply? {
            await peer.ask("setCheckpoint", [("client", client), ("collection", "0")] + (rev.map { [("rev", $0)] } ?? []), body)
        }
        let body = "{ \"local\" : 1, \"remote\":\"3::9\",\"x\":1.50 }"
        let first = try #require(await set("", body)?.properties["rev"])
        expect(await set(nil, body), 409, "no token where there is a checkpoint")
        expect(await set("nonsense", body), 409, "a wrong token")
        let second = try #require(await set(first, body)?.properties["rev"])
        #expect(second != first)
        expect(await set(first, body), 409, "an old token")
        let reply = await peer.ask("getCheckpoint", [("client", "cp/+="), ("collection", "0")])
        #expect(reply.map { String(buffer: $0.body) } == body && reply?.properties["rev"] == second)
        for bad in ["", "[]", "7", "{", "nonsense"] { expect(await set(second, bad), 400, "\(bad)") }
        expect(await set(second, "{\"x\":\"" + String(repeating: "x", count: 1 << 20) + "\"}"), 413, "too large")
        expect(await set("", "{}", String(repeating: "c", count: 513)), 400, "a long id")
        expect(await peer.ask("getCheckpoint", [("collection", "0")]), 400, "no client", domain: "BLIP")
        #expect(await peer.ask("getCheckpoint", [("client", "cp/+="), ("collection", "0")])?.properties["rev"] == second)
    }

    @Test func blobs() async throws {
        let (database, peer) = try await session()
        let digest = try await database.blob(Array("hello".utf8))
        let large = try await database.blob([UInt8](repeating: 7, count: 3 << 20))
        let absent = BlobDigest.of([1]).text
        try await database.put("d", "{\"blobs\":[" + [digest, large, absent].map { "{\"@type\":\"blob\",\"digest\":\"\($0)\"}" }.joined(separator: ",") + "]}")
        let document = [("collection", "0"), ("docID", "d")]
        let reply = await peer.ask("getAttachment", document + [("digest", digest), ("compress", "true")])
        #expect(reply.map { String(buffer: $0.body) } == "hello")
        for bad in ["", "nonsense", "sha1-", "sha1-zzzz", "md5-qvTGHdzF6KLavt4PO0gs2a6pQ00=", "../../etc/passwd"] {
            expect(await peer.ask("getAttachment", document + [("digest", bad)]), 400, "\(bad)")
        }
        expect(await peer.ask("getAttachment", document), 400, "no digest")
        expect(await peer.ask("getAttachment", document + [("digest", absent)]), 404, "unknown")
        let nonce: [UInt8] = Array("0123456789abcdef".utf8)
        let proof = await peer.ask("proveAttachment", document + [("digest", digest)], "0123456789abcdef")
        #expect(proof.map { String(buffer: $0.body) } == BlobDigest.of([16] + nonce + Array("hello".utf8)).text)
        for count in [0, 256] {
            expect(await peer.ask("proveAttachment", [("collection", "0"), ("digest", digest)], String(repeating: "n", count: count)), 400, "nonce of \(count)")
        }
        // Many requests at once are all answered, and are not all in memory at once.
        await withTaskGroup(of: Int?.self) { group in
            for _ in 0..<24 {
                group.addTask { await peer.ask("getAttachment", [("collection", "0"), ("docID", "d"), ("digest", large)])?.body.readableBytes }
            }
            for await count in group { #expect(count == 3 << 20) }
        }
        #expect(await peer.isAlive())
    }

    /// The pusher sends a blob that does not match its digest.
    @Test func aBlobWithAWrongDigest() async throws {
        let database = try TestDatabase("b")
        let peer = try await Peer(Hub(database)) { request in
            request.profile == "getAttachment" ? OutgoingReply(json: "not what was asked for") : OutgoingReply()
        }
        await peer.begin()
        let body = "{\"x\":{\"@type\":\"blob\",\"digest\":\"\(BlobDigest.of([1]).text)\"}}"
        expect(await peer.ask("rev", rev("x"), body), 400, "wrong digest")
        #expect(try await database.get("x") == nil)
        #expect(await peer.ask("rev", rev("y"), "{}")?.error == nil)
    }

    @Test func subscriptions() async throws {
        let (_, peer) = try await session()
        for properties in [("versioning", "nonsense"), ("filter", "sync_gateway/bychannel"), ("filter", "")] {
            #expect(await peer.ask("subChanges", [("collection", "0"), properties])?.error?.domain == "LiteCore")
        }
        for body in ["[]", "{", "{\"docIDs\":7}"] { expect(await peer.ask("subChanges", [("collection", "0")], body), 400, "\(body)") }
        // Subscriptions one after the other are fine, even with nonsense as the sequence; two at a time are not.
        for since in ["\"3\"", "-1", "99999999999999999999", "x"] {
            #expect(await peer.ask("subChanges", [("collection", "0"), ("since", since)])?.error == nil)
            for await request in peer.requests where request.profile == "changes" && request.isNoReply { break }
        }
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])?.error == nil)
        expect(await peer.ask("subChanges", [("collection", "0")]), 409, "a second subscription")
        #expect(await peer.ask("unsubChanges", [("collection", "0")])?.error == nil)
        #expect(await peer.ask("subChanges", [("collection", "0")])?.error == nil)
    }

    @Test func brokenFramesEndTheConnectionAndNothingElse() async throws {
        let database = try TestDatabase("b")
        let hub = Hub(database)
        for bytes: [UInt8] in [[], [1], [1, 0], [1, 0, 0, 0, 0, 0], [5, 0, 0, 0xd2, 2, 0xef, 0x8d], Array(repeating: 0xff, count: 30)] {
            let transport = try await hub.connect()
            let peer = Peer(transport)
            transport.executionContext.execute { transport.write([ByteBuffer(bytes: bytes)]) }
            for await end in peer.end { #expect(end.code == 1011, "\(bytes)") }
        }
        let peer = try await Peer(hub)
        #expect(await peer.begin()?.error == nil)
    }

    // MARK: - The active side

    /// A listener answers nonsense: the replicator ends with an error that says so, or continues if it can.
    @Test(arguments: [
        ("getCollections", "nonsense"), ("getCollections", "[]"), ("getCollections", "[{},{}]"), ("getCollections", "[7]"), ("getCollections", "[null]"),
        ("getCollections", ""),
    ])
    func repliesToSetUp(_ profile: String, _ body: String) async throws {
        let a = try TestDatabase("a")
        try await a.fill(0..<3)
        let listener = FakeListener { request in request.profile == profile ? OutgoingReply(json: body) : OutgoingReply() }
        let status = await Replicator(ReplicatorConfiguration(a) { $0.retry = .init(maximumAttempts: 1) }, listener).run()
        #expect(status.error != nil && status.error?.isTransient == false, "\(String(describing: status.error))")
    }

    @Test(arguments: [
        ("getCollections", "HTTP", 503, true), ("getCollections", "HTTP", 403, false), ("subChanges", "HTTP", 403, false), ("subChanges", "HTTP", 503, true),
        ("proposeChanges", "HTTP", 503, true), ("proposeChanges", "LiteCore", 26, false), ("getCollections", "BLIP", 500, false),
    ])
    func errorsOfTheConnection(_ profile: String, _ domain: String, _ code: Int, _ isTransient: Bool) async throws {
        let a = try TestDatabase("a")
        try await a.fill(0..<3)
        let listener = FakeListener { request in
            if request.profile == profile { return OutgoingReply(error: domain, code, "because") }
            return request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply()
        }
        let replicator = Replicator(ReplicatorConfiguration(a) { $0.retry = .init(maximumAttempts: 1) }, listener)
        let status = await replicator.run()
        #expect(status.error?.code == code && status.error?.isTransient == isTransient && status.error?.message.contains("because") == true)
        // The close code tells the peer whether we will reconnect.
        for await peer in listener.peers {
            for await end in peer.end { #expect(end.code == (isTransient ? 4001 : 4002)) }
            break
        }
    }

    /// Otherwise what follows such a list would be pulled, and the checkpoint would pass what was in the list.
    @Test(arguments: ["{}", "7", "["]) func aListThatCannotBeReadEndsAPull(_ body: String) async throws {
        let a = try TestDatabase("a")
        let (replicator, listener) = await Self.puller(of: a)
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            _ = await peer.ask("changes", [("collection", "0")], body)
            break
        }
        // Somebody may fix the peer, and so it is asked again later, from the checkpoint before the list.
        let status = await replicator.wait { $0.activity == .offline }
        #expect(status?.error?.code == 400 && (status?.retryInSeconds ?? 0) >= 30)
        await replicator.stop()
    }

    /// A continuous puller that has begun, and the listener that it pulls from.
    private static func puller(of database: TestDatabase) async -> (Replicator, FakeListener) {
        let listener = FakeListener { request in request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply() }
        let replicator = Replicator(ReplicatorConfiguration(database, .pull, continuous: true), listener)
        await replicator.start()
        return (replicator, listener)
    }

    /// What a hostile listener offers and sends while it is pulled from.
    @Test func whatAListenerSendsToAPuller() async throws {
        let a = try TestDatabase("a")
        let (replicator, listener) = await Self.puller(of: a)
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            expect(await peer.ask("changes", [("collection", "9")], "[]"), 400, "unknown collection")
            expect(await peer.ask("proposeChanges", [("collection", "0")], "[]"), 403, "proposals to the active side")
            let reply = await peer.ask(
                "changes", [("collection", "0")],
                "[[1,\"a\",\"1-aa\"],[2,\"bad\",\"nonsense\"],[3,\"b\",\"1-bb\",0,10],[\"4::7\",\"c\",\"1-cc\"],[5,\"d\",\"1-dd\"],[1,\"a\",\"1-aa\"]]")
            #expect(reply.map { String(buffer: $0.body) } == "[[],0,[],[],[],0]")
            expect(await peer.ask("rev", rev("a", "1-aa", [("sequence", "1")]), "nonsense"), 400, "body")
            expect(await peer.ask("rev", rev("b", "1-bb"), "{}"), 400, "no sequence")
            #expect(await peer.ask("rev", rev("b", "1-bb", [("sequence", "3")]), "{}")?.error == nil)
            #expect(await peer.ask("rev", rev("c", "1-cc", [("sequence", "\"4::7\"")]), "{}")?.error == nil)
            peer.send(peer.request("norev", rev("d", "1-dd", [("sequence", "5"), ("error", "404")]), noReply: true))
            // A revision that nobody asked for.
            expect(await peer.ask("rev", rev("e", "1-ee", [("sequence", "77")]), "{}"), 400, "nobody asked")
            peer.send(peer.request("changes", [("collection", "0")], "null", noReply: true))
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            #expect(try await a.count() == 2)
            // Once it has caught up, the puller saves how far it has come: past the bad row and the norev.
            for await request in peer.requests where request.profile == "setCheckpoint" {
                if String(buffer: request.body).contains("\"remote\":5") { break }
            }
            break
        }
        #expect(replicator.status.counts.completed == replicator.status.counts.total)
        await replicator.stop()
    }

    /// The document that was requested is still owed: it waits like one that the peer cannot send for the moment, whatever the code (`norev` 520 and 408).
    @Test(arguments: [nil, "520", "408"]) func aDocumentInWhosePlaceAnotherArrived(_ norev: String?) async throws {
        let a = try TestDatabase("a")
        let (replicator, listener) = await Self.puller(of: a)
        var events = replicator.documentEvents().makeAsyncIterator()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            _ = await peer.ask("changes", [("collection", "0")], "[[1,\"a\",\"1-aa\"]]")
            if let norev {
                peer.send(peer.request("norev", rev("a", "1-aa", [("sequence", "1"), ("error", norev)]), noReply: true))
            } else {
                expect(await peer.ask("rev", rev("b", "1-bb", [("sequence", "1")]), "{}"), 400, "another document")
            }
            break
        }
        let told = await events.next()
        #expect(told?.first?.id == doc("a"))
        let waiting = replicator.waiting.find(.default, doc("a"), .pull)
        #expect(waiting?.error.isTransient == true && (norev != nil || waiting?.error.code == 502), "\(String(describing: waiting))")
        #expect(replicator.waiting.summary().first?.text.hasPrefix("1 document cannot be pulled at the moment, such as a") == true)
        #expect(replicator.waiting.refusedHere(.default, doc("a")) == nil)
        await replicator.stop()
    }

    /// The same rule holds as for what peers push, because different readers would understand such a document differently.
    @Test func ambiguousDocumentsThatAreOfferedToAPuller() async throws {
        let a = try TestDatabase("a")
        let (replicator, listener) = await Self.puller(of: a)
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            let bodies = [
                (#"{"owner":"ann","x":1,"owner":"eve"}"#, "owner"), (#"{"a":[{"in":1,"\u0069n":2}]}"#, "in"), (#"{"_deleted":"no"}"#, "_deleted"), (#"{"_id":7}"#, "_id"),
                (#"{"_owner":"ann"}"#, "_owner"),
            ]
            let rows = (0...bodies.count).map { "[\($0 + 1),\"d\($0)\",\"1-aa\"]" }.joined(separator: ",")
            _ = await peer.ask("changes", [("collection", "0")], "[\(rows)]")
            for (number, (body, word)) in bodies.enumerated() {
                let reply = await peer.ask("rev", rev("d\(number)", "1-aa", [("sequence", "\(number + 1)")]), body)
                expect(reply, 400, "\(body)")
                #expect(reply?.error?.message.contains(word) == true, "\(body): \(String(describing: reply?.error))")
            }
            #expect(await peer.ask("rev", rev("d\(bodies.count)", "1-aa", [("sequence", "\(bodies.count + 1)")]), "{\"owner\":\"ann\"}")?.error == nil)
            peer.send(peer.request("changes", [("collection", "0")], "null", noReply: true))
            #expect(await replicator.wait { $0.activity == .idle } != nil)
            #expect(try await a.contents() == ["d\(bodies.count) 1-aa false {\"owner\":\"ann\"}"])
            break
        }
        await replicator.stop()
    }
}
