import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Replication

/// What a peer can learn about documents that it may not have, through every kind of request.
@Suite(.timeLimit(.minutes(10)))
struct LimitedPeerTests {
    /// What limits the peer, which may have `open`, but neither `secret` nor `gone`, a tombstone.
    enum Bound: CaseIterable, CustomTestStringConvertible {
        case channels, syncFunction, filter
        var testDescription: String { "\(self)" }
    }

    private static let other = "3-bb00000000000000000000000000000000000001"
    private static let later = "4-bb00000000000000000000000000000000000002"

    /// A listener with two collections, and a limited peer.
    private struct Scene {
        let database: TestDatabase
        var configuration: PassiveConfiguration
        var router: ChannelRouter?
        var secret = ""
        var open = ""
        var gone = ""

        init(_ bound: Bound) async throws {
            database = try TestDatabase("hub", collections: ["one.other"])
            configuration = PassiveConfiguration(listener: "hub", database: database.database)
            let collection = try database.collection()
            switch bound {
            case .channels: configuration.principal = Principal(name: "ben", channels: ["blue"])
            case .syncFunction:
                configuration.principal = Principal(name: "ben", channels: ["blue"], collections: ["_default"])
                let function = TestSync()
                configuration.syncFunction = function
                let router = ChannelRouter(
                    database: database.database, collection: collection, function: function, listener: "hub", logger: quietLogger())
                await router.start()
                self.router = router
            case .filter:
                configuration.principal = Principal(name: "ben")
                configuration.pushFilter = TestFilter { document, _ in document.id == doc("open") ? .pass : .reject }
            }
            secret = try await database.put("secret", "{\"in\":[\"red\"],\"pin\":4711}").text
            open = try await database.put("open", "{\"in\":[\"blue\"]}").text
            try await database.put("gone", "{\"in\":[\"red\"]}")
            gone = try await database.put("gone", "{}", deleted: true).text
            if bound == .channels {
                // The channels are assigned by another listener of the same database.
                for (id, channel) in [("secret", "red"), ("open", "blue"), ("gone", "red")] {
                    try await database.database.write { transaction in
                        guard let revision = try transaction.document(collection, doc(id))?.revision else { return }
                        try transaction.route(collection, doc(id), revision, DocumentRoute(channels: [channel]))
                    }
                }
            } else if bound == .syncFunction {
                try await database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc("gone")) } != nil }
            }
        }

        func peer(_ answer: @escaping Peer.Answer = { _ in OutgoingReply(json: "[]") }) async throws -> Peer {
            let peer = try await Peer(Hub(configuration), answer: answer)
            await peer.begin()
            return peer
        }
    }

    private func propose(_ peer: Peer, _ rows: [[String]], names: Bool = true) async -> String? {
        let body = "[" + rows.map { "[" + $0.map { "\"\($0)\"" }.joined(separator: ",") + "]" }.joined(separator: ",") + "]"
        let reply = await peer.ask("proposeChanges", [("collection", "0")] + (names ? [("conflictIncludesRev", "true")] : []), body)
        #expect(reply?.error == nil)
        return reply.map { String(buffer: $0.body) }
    }

    /// A proposal for a document that the peer may not have is answered as if there were none; for one that it may have, as usual.
    @Test(arguments: Bound.allCases, [true, false])
    func proposals(_ bound: Bound, _ names: Bool) async throws {
        let scene = try await Scene(bound)
        let peer = try await scene.peer()
        for (id, revision) in [("secret", scene.secret), ("gone", scene.gone), ("nowhere", scene.secret)] {
            let rows = [[id, revision], [id, Self.other], [id, Self.other, ""], [id, Self.later, Self.other], [id, Self.other, revision]]
            #expect(await propose(peer, rows, names: names) == "[]", "\(id)")
        }
        let conflict = names ? "{\"status\":409,\"rev\":\"\(scene.open)\"}" : "409"
        let mixed = [["secret", Self.other], ["open", Self.other], ["open", scene.open], ["secret", scene.secret], ["open", Self.other, scene.open]]
        #expect(await propose(peer, mixed, names: names) == "[0,\(conflict),304]")
    }

    /// A revision that does not fit is refused without revealing anything about what is there.
    @Test(arguments: Bound.allCases)
    func revisions(_ bound: Bound) async throws {
        let scene = try await Scene(bound)
        let peer = try await scene.peer()
        for history in ["", "2-bb00000000000000000000000000000000000003"] {
            let reply = await peer.ask("rev", [("collection", "0"), ("id", "secret"), ("rev", Self.other), ("history", history)], "{\"in\":[\"blue\"]}")
            #expect(reply?.error?.code == 409)
            #expect(reply?.error?.message.contains(scene.secret) == false && reply?.error?.message.contains("4711") == false)
        }
        #expect(try await scene.database.get("secret")?.revision.text == scene.secret)
    }

    @Test(arguments: Bound.allCases, ["", "{\"docIDs\":[\"secret\",\"gone\",\"nowhere\",\"open\"]}"])
    func subscriptions(_ bound: Bound, _ body: String) async throws {
        let scene = try await Scene(bound)
        let peer = try await scene.peer()
        #expect(await peer.ask("subChanges", [("collection", "0"), ("revocations", "true")], body)?.error == nil)
        var lists: [String] = []
        for await request in peer.requests where request.profile == "changes" {
            lists.append(String(buffer: request.body))
            if request.isNoReply { break }
        }
        let text = lists.joined()
        #expect(text.contains(scene.open) && lists.last == "[]")
        #expect(!text.contains("secret") && !text.contains("gone") && !text.contains(scene.secret) && !text.contains(scene.gone))
    }

    /// Naming a channel does not give a peer access to it.
    @Test(arguments: [Bound.channels, .syncFunction], ["red", "*"])
    func channelsByName(_ bound: Bound, _ channel: String) async throws {
        let scene = try await Scene(bound)
        let peer = try await scene.peer()
        let properties = [("collection", "0"), ("filter", "sync_gateway/bychannel"), ("channels", channel)]
        #expect(await peer.ask("subChanges", properties)?.error == nil)
        for await request in peer.requests where request.profile == "changes" {
            #expect(!String(buffer: request.body).contains("secret"))
            if request.isNoReply { break }
        }
    }

    /// A collection that the peer may not use is treated like one that does not exist.
    @Test func collections() async throws {
        let scene = try await Scene(.syncFunction)
        for name in ["one.other", "one.nowhere"] {
            let peer = try await Peer(Hub(scene.configuration))
            #expect((await peer.begin(["_default", name])).map { String(buffer: $0.body) } == "[{},null]")
            for profile in ["getCheckpoint", "proposeChanges", "subChanges", "getAttachment", "rev"] {
                let reply = await peer.ask(profile, [("collection", "1"), ("client", "x"), ("id", "a"), ("rev", Self.other)], "[]")
                #expect(reply?.error?.code == 400, "\(profile)")
            }
        }
    }

    /// Unknown requests, and messages that expect no answer.
    @Test(arguments: Bound.allCases)
    func otherRequests(_ bound: Bound) async throws {
        let scene = try await Scene(bound)
        let peer = try await scene.peer()
        for id in ["secret", "nowhere"] {
            for profile in ["getRev", "putRev", "function", "allDocs"] {
                let reply = await peer.ask(profile, [("collection", "0"), ("id", id)])
                #expect(reply?.error?.domain == "BLIP" && reply?.error?.code == 404)
            }
            let changes = await peer.ask("changes", [("collection", "0")], "[[1,\"\(id)\",\"\(Self.other)\"]]")
            #expect(changes?.error?.code == 409 && changes?.error?.message == "Use 'proposeChanges' instead")
            let norev = await peer.ask("norev", [("collection", "0"), ("id", id), ("rev", Self.other), ("sequence", "1"), ("error", "404")])
            #expect(norev?.error == nil && norev?.body.readableBytes == 0)
            #expect(await peer.ask("unsubChanges", [("collection", "0"), ("id", id)])?.body.readableBytes == 0)
        }
    }

    // MARK: - A document that leaves while it is on its way

    /// The peer takes its time to request an announced row, and has lost the channel meanwhile.
    @Test func anAnnouncedDocumentIsNotSentIfThePeerMayNoLongerHaveIt() async throws {
        let scene = try await Scene(.syncFunction)
        let collection = try scene.database.collection()
        let offered = Mutex(UInt64?.none)
        let peer = try await scene.peer { request in
            guard request.profile == "changes" else { return OutgoingReply() }
            if offered.withLock({ $0 }) != nil { return OutgoingReply(json: "[0]") }
            offered.withLock { $0 = request.number }
            return nil
        }
        #expect(await peer.ask("subChanges", [("collection", "0"), ("continuous", "true"), ("revocations", "true")])?.error == nil)
        var requests = peer.requests.makeAsyncIterator()
        while let request = await requests.next(), request.profile != "changes" || request.isNoReply {}
        // The offer arrives here before it is answered.
        while offered.withLock({ $0 }) == nil { await Task.yield() }
        try await scene.database.put("open", "{\"in\":[\"red\"]}")
        try await scene.database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc("open")) } == ["red"] }
        peer.reply(to: try #require(offered.withLock { $0 }), OutgoingReply(json: "[[]]"))
        var seen: [String] = []
        while let request = await requests.next() {
            seen.append(request.profile)
            if request.profile == "norev" {
                #expect(request.properties["id"] == "open" && request.properties["rev"] == scene.open && request.isNoReply)
            }
            // Then it is told that the document is gone.
            if request.profile == "changes", String(buffer: request.body).contains("\"open\"") { break }
        }
        #expect(seen.contains("norev") && !seen.contains("rev"), "\(seen)")
    }

    // MARK: - A remote that we replicate with

    private func answer(toOffer type: ReplicatorType, _ filter: TestFilter?, marked: Bool) async throws -> (String?, String) {
        let device = try TestDatabase("device")
        let current = try await device.put("secret", "{\"pin\":4711}")
        let listener = FakeListener { request in request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply() }
        let configuration = ReplicatorConfiguration(device, type, continuous: true) { $0.only { $0.pushFilter = filter } }
        if marked {
            let collection = try device.collection()
            try await device.database.write {
                try $0.setRemoteRevisions(try $0.remoteID(for: configuration.remoteKey), collection, [(doc("secret"), current)])
            }
        }
        let replicator = Replicator(configuration, listener)
        await replicator.start()
        for await peer in listener.peers {
            for await request in peer.requests where request.profile == "subChanges" { break }
            let reply = await peer.ask("changes", [("collection", "0")], "[[1,\"secret\",\"\(Self.other)\",0,90]]")
            await replicator.stop()
            return (reply.map { String(buffer: $0.body) }, current.text)
        }
        return (nil, "")
    }

    /// Offers are answered with the ancestors that we have, except those that the remote may not know about.
    @Test func ancestorsAreNamedOnlyToThoseWhoMayKnowThem() async throws {
        let none = TestFilter { _, _ in .reject }
        #expect(try await answer(toOffer: .pull, nil, marked: false).0 == "[[]]")
        #expect(try await answer(toOffer: .pushAndPull, none, marked: false).0 == "[[]]")
        for (type, filter, marked) in [(.pull, nil, true), (.pushAndPull, none, true), (.pushAndPull, nil, false)] as [(ReplicatorType, TestFilter?, Bool)] {
            let (reply, current) = try await answer(toOffer: type, filter, marked: marked)
            #expect(reply == "[[\"\(current)\"]]")
        }
    }

    /// A replicator refuses requests that are meant for a listener, and revisions that it did not ask for.
    @Test func aReplicatorIsNotAListener() async throws {
        let device = try TestDatabase("device")
        let listener = FakeListener { request in request.profile == "getCollections" ? OutgoingReply(json: "[{}]") : OutgoingReply(json: "[]") }
        let replicator = Replicator(ReplicatorConfiguration(device, .push, continuous: true), listener)
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        for await peer in listener.peers {
            let properties = [("collection", "0"), ("client", "cp"), ("id", "planted"), ("rev", Self.other), ("sequence", "1")]
            for (profile, code) in [
                ("getCheckpoint", 501), ("setCheckpoint", 501), ("subChanges", 501), ("unsubChanges", 501), ("proposeChanges", 403), ("rev", 403),
                ("changes", 403),
            ] {
                let body = profile.hasSuffix("hanges") ? "[[1,\"planted\",\"\(Self.other)\"]]" : "{}"
                #expect(await peer.ask(profile, properties, body)?.error?.code == code, "\(profile)")
            }
            break
        }
        #expect(try await device.get("planted") == nil)
        // The push continues.
        try await device.put("later", "{}")
        #expect(await replicator.wait { $0.counts.pushed == 1 } != nil)
        await replicator.stop()
    }
}
