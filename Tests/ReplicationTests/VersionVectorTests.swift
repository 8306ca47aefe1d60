import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import TestRandomness
import Testing
import Transport

/// Peers whose databases have version vectors: Couchbase Lite 4.
@Suite("Peers with version vectors", .timeLimit(.minutes(5)))
struct VersionVectorTests {
    private static let ann = "QUxJQ0VBTElDRUFMSUNFQQ"
    private static let carl = "EREiM0RVZneImaq7zN3u/w"
    private static let bob = "ABEiM0RVZneImaq7zN3u/w"

    private func hub(_ database: TestDatabase, isOurs: Bool = true, _ change: (inout PassiveConfiguration) -> Void = { _ in }) -> Hub {
        var configuration = PassiveConfiguration(listener: "hub", database: database.database, subprotocol: .generation4)
        change(&configuration)
        return Hub(configuration, owner: database, peersHaveBothNames: isOurs)
    }

    /// A hub for peers with revision trees.
    private func treeHub(_ database: TestDatabase) -> Hub {
        Hub(PassiveConfiguration(listener: "hub", database: database.database), owner: database, peersHaveBothNames: false)
    }

    private func rev(_ id: String, _ revision: String, _ history: String = "", _ more: [(String, String)] = []) -> [(String, String)] {
        [("collection", "0"), ("id", id), ("rev", revision)] + (history.isEmpty ? [] : [("history", history)]) + more
    }

    private func propose(_ peer: Peer, _ rows: String) async -> String? {
        let reply = await peer.ask("proposeChanges", [("collection", "0"), ("conflictIncludesRev", "true")], rows)
        if let error = reply?.error { return "\(error.code)" }
        return reply.map { String(buffer: $0.body) }
    }

    @Test("a peer pushes a document, its edits and its deletion, and is told of revisions that are known already")
    func pushes() async throws {
        let database = try TestDatabase("v")
        let peer = try await Peer(hub(database))
        #expect(await peer.begin()?.error == nil)
        #expect(await propose(peer, #"[["a","18e9000000000005@\#(Self.ann)"],["b","18e9000000000005@\#(Self.ann)","",10]]"#) == "[]")
        #expect(await peer.ask("rev", rev("a", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)?.error == nil)
        #expect(await propose(peer, #"[["a","18e9000000000005@\#(Self.ann)"]]"#) == "[304]")
        #expect(await propose(peer, #"[["a","18e9000000000007@\#(Self.bob)","18e9000000000005@\#(Self.ann)"]]"#) == "[]")
        #expect(await peer.ask("rev", rev("a", "18e9000000000007@\(Self.bob)", "18e9000000000005@\(Self.ann)", [("noconflicts", "1")]), #"{"n":2}"#)?.error == nil)
        #expect(try await database.body("a") == #"{"n":2}"#)
        #expect(await propose(peer, #"[["a","18e9000000000006@\#(Self.ann)","18e9000000000005@\#(Self.ann)"]]"#) == #"[{"status":409,"rev":"18e9000000000007@\#(Self.bob)"}]"#)
        let late = await peer.ask("rev", rev("a", "18e9000000000006@\(Self.ann)", "18e9000000000005@\(Self.ann)", [("noconflicts", "1")]), #"{"n":3}"#)
        #expect(late?.error?.code == 409)
        #expect(await peer.ask("rev", rev("a", "18e9000000000008@\(Self.ann)", "18e9000000000007@\(Self.bob)", [("deleted", "1")]), "{}")?.error == nil)
        #expect(try await database.get("a")?.isDeleted == true)
    }

    @Test("a version from the future is blamed on the peer that made it, not on the one that passes it on")
    func fastClocks() async throws {
        let database = try TestDatabase("v")
        for user in ["ann", "carl"] {
            let peer = try await Peer(hub(database) { $0.principal = Principal(name: user) })
            await peer.begin()
            #expect(await peer.ask("rev", rev("a-\(user)", "2000000000000000@\(Self.ann)"), "{}")?.error == nil)
        }
        let sender = try #require(database.database.fastestClock?.sender)
        #expect(sender.hasPrefix("user ann at ") && sender.hasSuffix(" by listener hub"), "\(sender)")
    }

    @Test("a peer pulls documents of every kind with the identifiers that it understands")
    func pulls() async throws {
        let database = try TestDatabase("v")
        let legacy = try await database.put("plain", #"{"n":0}"#)
        let configured = hub(database)
        let peer = try await Peer(configured)
        await peer.begin()
        _ = await peer.ask("rev", rev("a", "18e9000000000005@\(Self.ann)", "18e9000000000003@\(Self.bob)"), #"{"n":1}"#)
        _ = await peer.ask("rev", rev("b", "18e9000000000006@\(Self.bob)", "\(legacy.text)"), #"{"n":2}"#)
        try await database.put("a", #"{"n":4}"#)

        let client = try await Peer(configured) { request in
            switch request.profile {
            case "changes" where request.body.readableBytes > 4:
                let rows = (try? JSONValue(parsing: [UInt8](request.body.readableBytesView)))?.asArray?.count ?? 0
                return OutgoingReply(json: "[" + Array(repeating: "[]", count: rows).joined(separator: ",") + "]")
            default: return OutgoingReply()
            }
        }
        await client.begin()
        #expect(await client.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors")])?.error == nil)
        var seen: [String: (rev: String, history: String)] = [:]
        for await request in client.requests where request.profile == "rev" {
            seen[request.properties["id"] ?? ""] = (request.properties["rev"] ?? "", request.properties["history"] ?? "")
            if seen.count == 3 { break }
        }
        #expect(seen["plain"]?.rev == legacy.text && seen["plain"]?.history == "")
        #expect(seen["b"]?.rev == "18e9000000000006@\(Self.bob)" && seen["b"]?.history == legacy.text)
        let ours = try VectorVersion(seen["a"]?.rev ?? "")
        #expect(ours.source.description != Self.ann && seen["a"]?.history == "18e9000000000005@\(Self.ann),18e9000000000003@\(Self.bob)")
    }

    @Test("a peer of another product gets only versions: a revision without one gets the version that stands for its id, and ids of ancestors if the peer has one")
    func versionsOnly() async throws {
        let database = try TestDatabase("v")
        let first = try await database.put("plain", #"{"n":0}"#)
        let second = try await database.put("plain", #"{"n":1}"#)
        let standing = VectorVersion(standingFor: second)
        let peer = try await Peer(hub(database, isOurs: false))
        await peer.begin()
        #expect(await propose(peer, #"[["plain","\#(standing)"]]"#) == "[304]")
        #expect(await propose(peer, #"[["plain","\#(second)"]]"#) == "[304]")
        #expect(await propose(peer, #"[["plain","18e9000000000009@\#(Self.bob)"]]"#) == #"[{"status":409,"rev":"\#(standing)"}]"#)
        #expect(await propose(peer, #"[["plain","18e9000000000009@\#(Self.bob)","\#(standing)"],["plain","18e9000000000009@\#(Self.bob)","\#(second)"]]"#) == "[]")
        let client = try await Peer(hub(database, isOurs: false)) { request in
            request.profile == "changes" && request.body.readableBytes > 4 ? OutgoingReply(json: "[[]]") : OutgoingReply()
        }
        await client.begin()
        _ = await client.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors"), ("continuous", "true")])
        var revisions = client.requests.makeAsyncIterator()
        func next() async -> [String] {
            while let request = await revisions.next() {
                if request.profile == "rev" { return [request.properties["rev"] ?? "", request.properties["history"] ?? ""] }
            }
            return []
        }
        #expect(await next() == [standing.description, ""])
        _ = await peer.ask("rev", rev("plain", "18e9000000000009@\(Self.bob)", "\(standing)"), #"{"n":2}"#)
        #expect(await next() == ["18e9000000000009@\(Self.bob)", standing.description])
        // A peer that has an ancestor under its id gets the ids.
        let upgraded = try await Peer(hub(database, isOurs: false)) { request in
            request.profile == "changes" && request.body.readableBytes > 4 ? OutgoingReply(json: #"[["\#(first)"]]"#) : OutgoingReply()
        }
        await upgraded.begin()
        _ = await upgraded.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors")])
        revisions = upgraded.requests.makeAsyncIterator()
        #expect(await next() == ["18e9000000000009@\(Self.bob)", "\(standing),\(second),\(first)"])
    }

    @Test("a document that is recreated alongside its tombstone is newer than the tombstone for every peer that has it, whether by versions or by ids")
    func madeAnew() async throws {
        let database = try TestDatabase("v")
        let (peer, stranger, trees) = (try await Peer(hub(database, isOurs: false)), try await Peer(hub(database, isOurs: false)), try await Peer(treeHub(database)))
        for each in [peer, stranger, trees] { await each.begin() }
        for id in ["d", "e"] {
            #expect(await peer.ask("rev", rev(id, "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)?.error == nil)
            #expect(await peer.ask("rev", rev(id, "18e9000000000007@\(Self.ann)", "", [("deleted", "1")]), "{}")?.error == nil)
        }
        // Peers that never had them create documents of the same names.
        #expect(await stranger.ask("rev", rev("d", "18e9000000000006@\(Self.bob)"), #"{"n":2}"#)?.error == nil)
        #expect(await trees.ask("rev", rev("e", "1-ff"), #"{"n":2}"#)?.error == nil)
        let client = try await Peer(hub(database, isOurs: false)) { request in
            guard request.profile == "changes", request.body.readableBytes > 4 else { return OutgoingReply() }
            let rows = (try? JSONValue(parsing: [UInt8](request.body.readableBytesView)))?.asArray?.count ?? 0
            return OutgoingReply(json: "[" + Array(repeating: "[]", count: rows).joined(separator: ",") + "]")
        }
        await client.begin()
        _ = await client.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors")])
        var seen: [String: [String?]] = [:]
        for await request in client.requests where request.profile == "rev" {
            seen[request.properties["id"] ?? ""] = [request.properties["rev"], request.properties["history"], request.properties["deleted"]]
            if seen.count == 2 { break }
        }
        #expect(seen["d"] == ["18e9000000000006@\(Self.bob)", "18e9000000000007@\(Self.ann)", nil])
        #expect(seen["e"] == ["1ff00000000@Revision+Tree+Encoding", "18e9000000000007@\(Self.ann)", nil])
    }

    @Test("to a peer that only reads, a decision is newer than both sides, however many generations the loser has")
    func readers() async throws {
        let database = try TestDatabase("v")
        let (here, there) = (RevisionID(stored: "2-aa"), RevisionID(stored: "1-bb"))
        try await database.insert("d", here.text, ["1-aa"], body: #"{"at":"here"}"#)
        let reader = try await Peer(hub(database, isOurs: false))
        await reader.begin()
        try await database.insert("d", there.text, body: #"{"at":"there"}"#)
        let collection = try database.collection()
        let decided = try await database.database.write {
            try $0.resolveConflict(collection, id: doc("d"), expectedLocal: here, expectedRemote: there, resolution: .remoteWins).revision
        }
        #expect(decided == there)
        let vector = try #require(try await database.database.read { try $0.currentVector(collection, doc("d")) })
        #expect(vector.knows(VectorVersion(standingFor: here)) && vector.knows(VectorVersion(standingFor: there)))
    }

    @Test("a document in channels that the peer may not see is treated like one that does not exist")
    func hidden() async throws {
        let database = try TestDatabase("v")
        let peer = try await Peer(hub(database) { $0.pushFilter = TestFilter { document, _ in document.id.text == "open" ? .pass : .reject } })
        await peer.begin()
        _ = await peer.ask("rev", rev("open", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)
        _ = await peer.ask("rev", rev("shut", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)
        #expect(await propose(peer, #"[["open","18e9000000000005@\#(Self.ann)"],["open","18e9000000000009@\#(Self.bob)"]]"#) == #"[304,{"status":409,"rev":"18e9000000000005@\#(Self.ann)"}]"#)
        #expect(await propose(peer, #"[["shut","18e9000000000005@\#(Self.ann)"],["shut","18e9000000000009@\#(Self.bob)"]]"#) == "[]")
    }

    @Test("a peer with revision trees and one with versions take turns editing the same document")
    func bothKinds() async throws {
        let database = try TestDatabase("v")
        let versions = try await Peer(hub(database)), trees = try await Peer(treeHub(database))
        await versions.begin()
        await trees.begin()
        _ = await versions.ask("rev", rev("a", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)
        let first = try #require(try await database.get("a")).revision.text
        let second = "2-" + String(repeating: "ab", count: 20)
        #expect(await propose(trees, #"[["a","\#(second)","\#(first)"]]"#) == "[]")
        #expect(await trees.ask("rev", rev("a", second, first), #"{"n":2}"#)?.error == nil)
        // What it had is now older, and it is told the new version.
        let answer = try #require(await propose(versions, #"[["a","18e9000000000006@\#(Self.bob)","18e9000000000005@\#(Self.ann)"]]"#))
        let current = try #require(try JSONValue(parsing: Array(answer.utf8)).asArray?.first?.asObject?["rev"]?.asString)
        #expect(current.contains("@") && !current.hasSuffix(Self.ann))
        #expect(await versions.ask("rev", rev("a", "18e9000000000007@\(Self.bob)", "\(current),18e9000000000005@\(Self.ann)"), #"{"n":3}"#)?.error == nil)
        #expect(try await database.get("a")?.revision.generation == 3)
        #expect(await propose(trees, #"[["a","3-ff","\#(second)"]]"#)?.contains("409") == true)
    }

    @Test("versions and histories that make no sense are refused individually, each with a message", arguments: [
        ("18e9000000000005@\(ann)", "18e9000000000006@\(ann)"), ("18e9000000000005@\(ann)", "1-aa,18e9000000000004@\(bob)"), ("0@\(ann)", ""), ("ffffffffff@\(ann)", ""),
        ("8000000000000000@\(ann)", ""), ("18e9000000000005@\(bob)", "5@\(ann)"), ("18e9000000000005@AAAAAAAAAAAAAAAAAAAAAA", ""), ("ffffffffffffffff@\(ann)", ""), ("5@me", ""), ("5@*", ""),
        ("18e9000000000005@\(ann)", "nonsense"), ("18e9000000000005@\(ann)", String(repeating: "18e9000000000001@\(bob),", count: 1_001)), ("@", ""), ("1-aa", "18e9000000000005@\(ann)"),
    ])
    func badVersions(_ revision: String, _ history: String) async throws {
        let database = try TestDatabase("v")
        let peer = try await Peer(hub(database))
        await peer.begin()
        let reply = await peer.ask("rev", rev("bad", revision, history), "{}")
        #expect(reply?.error?.code == 400 && reply?.error?.message.isEmpty == false, "\(String(describing: reply?.error))")
        #expect(try await database.get("bad") == nil)
        #expect(await peer.ask("rev", rev("good", "18e9000000000005@\(Self.ann)"), "{}")?.error == nil)
        #expect(await peer.isAlive())
    }

    @Test("only another Nightjar is believed about its revision's place in the tree")
    func foreignPlaces() async throws {
        let database = try TestDatabase("v")
        let peer = try await Peer(hub(database, isOurs: false))
        await peer.begin()
        _ = await peer.ask("rev", rev("a", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)
        let first = try #require(try await database.get("a")).revision.text
        // If this were believed, the revision would already be here under another name, and its body would be discarded.
        #expect(await peer.ask("rev", rev("a", "18e9000000000006@\(Self.ann)", "", [("treeRev", first)]), #"{"n":2}"#)?.error == nil)
        #expect(try await database.body("a") == #"{"n":2}"#)
    }

    @Test("a revision that is here gets the peer's name for it, even if the pull filter would not let it in; a limited peer does not learn from it what is here")
    func namesPassTheFilter() async throws {
        let database = try TestDatabase("v")
        let first = try await database.put("a", #"{"n":1}"#)
        let filter = TestFilter { _, _ in .reject }
        let peer = try await Peer(hub(database) { $0.pullFilter = filter })
        await peer.begin()
        let same = await peer.ask("rev", rev("a", "18e9000000000006@\(Self.ann)", "", [("treeRev", first.text)]), #"{"n":1}"#)
        #expect(same?.error == nil && same?.properties["noop"] == "true")
        #expect(await propose(peer, #"[["a","18e9000000000006@\#(Self.ann)"]]"#) == "[304]")
        #expect(await peer.ask("rev", rev("a", "18e9000000000007@\(Self.ann)", "18e9000000000006@\(Self.ann)"), #"{"n":2}"#)?.error?.code == 403)
        let limited = try await Peer(hub(database) {
            $0.pullFilter = filter
            $0.pushFilter = TestFilter { _, _ in .reject }
        })
        await limited.begin()
        #expect(await limited.ask("rev", rev("a", "18e9000000000008@\(Self.ann)", "", [("treeRev", first.text)]), #"{"n":1}"#)?.error?.code == 403)
    }

    @Test("if peers lie about versions and places in the tree, each message is answered, documents stay readable and other peers are served", arguments: 1...12)
    func lies(_ seed: Int) async throws {
        var random = SeededGenerator(seed: UInt64(seed))
        let database = try TestDatabase("v")
        let liars = [try await Peer(hub(database)), try await Peer(hub(database, isOurs: false)), try await Peer(treeHub(database))]
        for liar in liars { await liar.begin() }
        let ids = ["a", "b", "c"]
        let digests = ["aa", "bb", String(repeating: "cd", count: 20)]
        var known = ["1-aa", "18e9000000000005@\(Self.ann)"]
        func version() -> String { "\(Int.random(in: 0..<8, using: &random) > 0 ? "18e90000000000" : "")1\(Int.random(in: 1...9, using: &random))@\(Bool.random(using: &random) ? Self.ann : Self.bob)" }
        func name() -> String {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: version()
            case 1: "\(Int.random(in: 1...4, using: &random))-\(digests.randomElement(using: &random) ?? "aa")"
            case 2: "9007199254740990-\(digests.randomElement(using: &random) ?? "aa")"
            case 3: VectorVersion(standingFor: RevisionID(stored: known.first { !$0.contains("@") } ?? "1-aa")).description
            default: known.randomElement(using: &random) ?? "1-aa"
            }
        }
        func names() -> String { (0..<Int.random(in: 0...4, using: &random)).map { _ in name() }.joined(separator: Bool.random(using: &random) ? "," : ";") }
        for step in 0..<150 {
            let id = ids.randomElement(using: &random) ?? "a"
            let liar = liars.randomElement(using: &random) ?? liars[0]
            var properties = rev(id, name(), names())
            if Bool.random(using: &random) { properties.append(("treeRev", name())) }
            if Bool.random(using: &random) { properties.append(("treeHistory", names())) }
            if Int.random(in: 0..<4, using: &random) == 0 { properties.append(("deleted", "1")) }
            if Bool.random(using: &random) { properties.append(("noconflicts", "1")) }
            let reply = await liar.ask("rev", properties, "{\"n\":\(step)}")
            #expect(reply != nil, "seed \(seed), step \(step): \(properties)")
            if Int.random(in: 0..<5, using: &random) == 0 { _ = try? await database.put(id, "{\"ours\":\(step)}") }
            if let found = try await database.get(id) { known.append(found.revision.text) }
            if known.count > 12 { known.removeFirst(4) }
        }
        for liar in liars { #expect(await liar.isAlive(), "seed \(seed)") }
        for id in ids {
            guard let found = try await database.get(id) else { continue }
            let honest = try await Peer(hub(database))
            await honest.begin()
            let collection = try database.collection()
            let current = try await database.database.read { try $0.currentName(collection, doc(id), .vectors) }?.text ?? ""
            // An edit of the current revision is accepted, whatever was claimed before.
            let next = "\(String(VectorVersion.times.upperBound, radix: 16))@\(Self.carl)"
            let reply = await honest.ask("rev", rev(id, next, current), #"{"last":true}"#)
            guard found.revision.generation < 9_007_199_254_740_000 else { continue }
            #expect(reply?.error == nil, "seed \(seed): \(id) at \(current): \(String(describing: reply?.error))")
            #expect(try await database.body(id) == #"{"last":true}"#, "seed \(seed): \(id)")
        }
    }

    @Test("on other connections versions are refused, and the message says which protocol they belong to")
    func otherConnections() async throws {
        let database = try TestDatabase("v")
        let peer = try await Peer(Hub(database))
        await peer.begin()
        let reply = await peer.ask("rev", rev("bad", "18e9000000000005@\(Self.ann)"), "{}")
        #expect(reply?.error?.code == 400 && reply?.error?.message.contains("CBMobile_4") == true)
    }

    @Test("a peer with versions that offers to pull by ids gets ids")
    func pullsByIds() async throws {
        let database = try TestDatabase("v")
        let plain = try await database.put("plain", #"{"n":0}"#)
        let versions = try await Peer(hub(database))
        await versions.begin()
        _ = await versions.ask("rev", rev("a", "18e9000000000005@\(Self.ann)"), #"{"n":1}"#)
        let named = try #require(try await database.get("a")).revision
        let client = try await Peer(treeHub(database)) { request in
            request.profile == "changes" && request.body.readableBytes > 4 ? OutgoingReply(json: #"[[],["18e9000000000003@\#(Self.ann)"]]"#) : OutgoingReply()
        }
        await client.begin()
        #expect(await client.ask("subChanges", [("collection", "0"), ("versioning", "version-vectors")])?.error == nil)
        var seen: [String] = []
        for await request in client.requests where request.profile == "rev" {
            seen.append(request.properties["rev"] ?? "")
            if seen.count == 2 { break }
        }
        #expect(Set(seen) == [plain.text, named.text])
        // On a connection with versions, a request to pull by ids is refused.
        #expect(await versions.ask("subChanges", [("collection", "0"), ("versioning", "rev-trees")])?.error?.code == 501)
    }
}
