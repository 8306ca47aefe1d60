import BLIP
import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// A version vector may claim nothing about documents that its sender may not see. As with revision ids, an edit has to name what it replaces.
@Suite("Version vectors and hidden documents", .timeLimit(.minutes(5)))
struct VersionClaimTests {
    private static let ann = "QUxJQ0VBTElDRUFMSUNFQQ"
    private static let bob = "ABEiM0RVZneImaq7zN3u/w"

    enum Bound: CaseIterable { case channels, pushFilter }

    /// Documents of the channel "red", which Ann may see and Bob may not.
    private func hub(_ database: TestDatabase, _ bound: Bound, _ user: String) -> Hub {
        var configuration = PassiveConfiguration(listener: "hub", database: database.database, subprotocol: .generation4)
        switch bound {
        case .channels:
            configuration.principal = Principal(name: user, channels: user == "ann" ? ["red", "blue"] : ["blue"])
            configuration.syncFunction = TestSync()
        case .pushFilter:
            configuration.pushFilter = TestFilter { document, _ in
                user == "ann" || !(text(document.body) ?? "").contains("red") ? .pass : .reject
            }
        }
        return Hub(configuration, owner: database, peersHaveBothNames: false)
    }

    private func send(_ peer: Peer, _ revision: String, _ history: String = "", _ body: String, deleted: Bool = false) async -> String {
        let properties = [("collection", "0"), ("id", "secret"), ("rev", revision)] + (history.isEmpty ? [] : [("history", history)])
        guard let reply = await peer.ask("rev", properties + (deleted ? [("deleted", "1")] : []), body) else { return "none" }
        return reply.error.map { "\($0.code)" } ?? (reply.properties["noop"] == "true" ? "noop" : "stored")
    }

    private func propose(_ peer: Peer, _ row: String) async -> String? {
        await peer.ask("proposeChanges", [("collection", "0")], "[\(row)]").map { String(buffer: $0.body) }
    }

    @Test("claims of any kind about a hidden document are conflicts, and reveal nothing about it", arguments: Bound.allCases)
    func claims(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        let (ann, bob) = (try await Peer(hub(database, bound, "ann")), try await Peer(hub(database, bound, "bob")))
        await ann.begin()
        await bob.begin()
        #expect(await send(ann, "18e9000000000005@\(Self.ann)", "18e9000000000003@\(Self.bob)", #"{"in":["red"],"n":1}"#) == "stored")
        let before = try #require(try await database.body("secret"))
        // Older or newer than the hidden version, known to it or not: the answer is always the same.
        for (revision, history) in [
            ("18e9000000000004@\(Self.ann)", ""), ("18e9000000000006@\(Self.ann)", ""), ("18e9000000000002@\(Self.bob)", ""), ("18e9000000000009@\(Self.bob)", ""), ("18e9000000000009@\(Self.bob)", "18e9000000000008@\(Self.ann)"),
            ("18e9000000000009@\(Self.bob)", "7fffffff00000000@\(Self.ann)"), ("18e9000000000009@\(Self.bob)", "18e9000000000004@\(Self.ann)"),
        ] {
            #expect(await propose(bob, #"["secret","\#(revision)"]"#) == "[]")
            #expect(await send(bob, revision, history, #"{"in":["blue"]}"#) == "409", "\(revision) \(history)")
        }
        #expect(try await database.body("secret") == before)
        // It does not help to know the version, which can be guessed, unlike an id. Those who see the document are believed, as always.
        #expect(await send(ann, "18e9000000000006@\(Self.ann)", "", #"{"in":["red"],"n":2}"#) == "stored")
        #expect(await send(bob, "18e9000000000009@\(Self.bob)", "18e9000000000006@\(Self.ann)", #"{"in":["blue"]}"#) == "409")
        #expect(await send(bob, "18e9000000000006@\(Self.ann)", "", #"{"in":["blue"]}"#) == "409")
        let current = try #require(try await database.get("secret")).revision
        #expect(await send(bob, "18e9000000000009@\(Self.bob)", "18e9000000000006@\(Self.ann),\(current)", #"{"in":["blue"],"n":3}"#) == "stored")
        #expect(await send(ann, "18e9000000000007@\(Self.ann)", "", #"{"in":["blue"],"n":4}"#) == "409")
    }

    @Test("a document without versions is not recognised by the forty bits that represent its id", arguments: Bound.allCases)
    func standIn(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        let ann = try await Peer(hub(database, bound, "ann"))
        await ann.begin()
        #expect(await send(ann, "18e9000000000005@\(Self.ann)", "", #"{"in":["red"]}"#) == "stored")
        #expect(await ann.ask("rev", [("collection", "0"), ("id", "plain"), ("rev", "1-aabbccddeeff")], #"{"in":["red"]}"#)?.error == nil)
        let bob = try await Peer(hub(database, bound, "bob"))
        await bob.begin()
        let standing = VectorVersion(standingFor: RevisionID(stored: "1-aabbccddeeff"))
        let properties = [("collection", "0"), ("id", "plain"), ("rev", "18e9000000000009@\(Self.bob)")]
        #expect(await bob.ask("rev", properties + [("history", "\(standing)")], #"{"in":["blue"]}"#)?.error?.code == 409)
        #expect(await bob.ask("rev", [("collection", "0"), ("id", "plain"), ("rev", "\(standing)")], #"{"in":["blue"]}"#)?.error?.code == 409)
        #expect(await bob.ask("rev", properties + [("history", "1-aabbccddeeff")], #"{"in":["blue"]}"#)?.error == nil)
    }

    @Test("a peer that may write a document but not see it can go on editing it on the same connection", arguments: Bound.allCases)
    func writer(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        let bob = try await Peer(hub(database, bound, "bob"))
        await bob.begin()
        #expect(await send(bob, "18e9000000000005@\(Self.bob)", "", #"{"in":["red"],"n":1}"#) == "stored")
        // As if the answer had been lost: what was acknowledged is sent again.
        #expect(await send(bob, "18e9000000000005@\(Self.bob)", "", #"{"in":["red"],"n":1}"#) == "noop")
        #expect(await send(bob, "18e9000000000006@\(Self.bob)", "", #"{"in":["red"],"n":2}"#) == "stored")
        let again = try await Peer(hub(database, bound, "bob"))
        await again.begin()
        #expect(await send(again, "18e9000000000006@\(Self.bob)", "", #"{"in":["red"],"n":2}"#) == "noop")
        #expect(await send(again, "18e9000000000006@\(Self.bob)", "", #"{"in":["red"],"n":9}"#) == "409")
        #expect(await send(again, "18e9000000000007@\(Self.bob)", "", #"{"in":["red"],"n":3}"#) == "409")
        #expect(try await database.body("secret")?.contains("2") == true)
    }

    @Test("a hidden document never becomes one side of a conflict, neither for a resolver nor in the sync function's messages", arguments: Bound.allCases, [false, true])
    func resolver(bound: Bound, byVersions: Bool) async throws {
        let database = try TestDatabase("hub")
        var configuration = PassiveConfiguration(listener: "hub", database: database.database, subprotocol: byVersions ? .generation4 : .generation3)
        configuration.resolver = TestResolver { _ in .merged(Array(#"{"in":["blue"],"both":true}"#.utf8)) }
        switch bound {
        case .channels:
            configuration.principal = Principal(name: "bob", channels: ["blue"])
            configuration.syncFunction = TestSync { object, request in
                request.old == nil ? TestSync.byFields(object, request) : .rejected(reason: "belongs to ann")
            }
        case .pushFilter: configuration.pushFilter = TestFilter { document, _ in (text(document.body) ?? "").contains("red") ? .reject : .pass }
        }
        try await database.put("secret", #"{"in":["red"],"pin":4711}"#)
        let bob = try await Peer(Hub(configuration, owner: database, peersHaveBothNames: false))
        await bob.begin()
        let made = byVersions ? "18e9000000000009@\(Self.bob)" : "1-ffffffffffffffffffffffffffffffff"
        for deleted in [false, true] {
            #expect(await send(bob, made, "", #"{"in":["blue"]}"#, deleted: deleted) == "409", "deleted: \(deleted)")
        }
        #expect(try await database.body("secret") == #"{"in":["red"],"pin":4711}"#)
    }

    @Test("a hidden document that was deleted can be recreated by a peer that knows nothing of it", arguments: Bound.allCases)
    func anew(bound: Bound) async throws {
        let database = try TestDatabase("hub")
        let (ann, bob) = (try await Peer(hub(database, bound, "ann")), try await Peer(hub(database, bound, "bob")))
        await ann.begin()
        await bob.begin()
        #expect(await send(ann, "18e9000000000005@\(Self.ann)", "18e9000000000003@\(Self.bob)", #"{"in":["red"]}"#) == "stored")
        #expect(await send(ann, "18e9000000000006@\(Self.ann)", "18e9000000000003@\(Self.bob)", #"{"in":["red"]}"#, deleted: true) == "stored")
        #expect(await send(bob, "18e9000000000002@\(Self.bob)", "", #"{"in":["blue"],"n":1}"#) == "stored")
        #expect(try await database.get("secret")?.isDeleted == false)
    }
}
