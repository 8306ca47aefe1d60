import BLIP
import Documents
import DocumentStore
import Interfaces
import NIOCore
import Replication
import Testing

/// What a peer learns about documents that are not, or no longer, in any of its channels.
@Suite("What peers learn of hidden changes", .timeLimit(.minutes(5)))
struct HiddenChangeTests {
    /// How the protocol names revisions.
    enum Names: CaseIterable, Sendable { case ids, versions }

    private struct Told {
        let peer: Peer
        var rows: [[JSONValue]] = []
        var revisions: [String: IncomingRequest] = [:]

        func row(_ id: String) -> [JSONValue]? { rows.first { $0[1] == .string(id) } }
        func body(_ id: String) -> String? { revisions[id].map { String(buffer: $0.body) } }
        /// The rows as text, except for the one that marks the end.
        var texts: [String] { rows.filter { $0[1] != .string("end") }.map { JSONValue.array($0).text } }
    }

    private func hub(_ routed: ChannelTests.RoutedHub, _ names: Names, _ channels: [String]? = nil) -> Hub {
        Hub(
            PassiveConfiguration(
                listener: "hub", database: routed.database.database, principal: Principal(name: "anna", channels: channels),
                syncFunction: routed.function, subprotocol: names == .ids ? .generation3 : .generation4),
            owner: routed.database, peersHaveBothNames: false)
    }

    private static func rows(_ request: IncomingRequest) -> [[JSONValue]] {
        let list = try? JSONValue(parsing: [UInt8](request.body.readableBytesView))
        return list?.asArray?.compactMap(\.asArray) ?? []
    }

    private static func wish(for request: IncomingRequest) -> OutgoingReply {
        OutgoingReply(json: "[" + Array(repeating: "[]", count: rows(request).count).joined(separator: ",") + "]")
    }

    private func subscribe(_ peer: Peer, _ names: Names, since: String) async {
        await peer.begin()
        let versioning = names == .ids ? [] : [("versioning", "version-vectors")]
        _ = await peer.ask("subChanges", [("collection", "0"), ("since", since), ("revocations", "true")] + versioning)
    }

    /// Pulls as a peer that requests everything it is offered, up to a document that everybody may have, and leaves the revisions unanswered.
    private func pull(_ routed: ChannelTests.RoutedHub, _ hub: Hub, _ names: Names, since: String = "0") async throws -> Told {
        try await routed.put("end", in: "!")
        let peer = try await Peer(hub) { request in request.profile == "changes" ? Self.wish(for: request) : nil }
        await subscribe(peer, names, since: since)
        var told = Told(peer: peer)
        for await request in peer.requests {
            if request.profile == "changes" { told.rows += Self.rows(request) }
            guard request.profile == "rev", let id = request.properties["id"] else { continue }
            told.revisions[id] = request
            if id == "end" { break }
        }
        return told
    }

    private func delete(_ routed: ChannelTests.RoutedHub, _ id: String, _ body: String) async throws {
        try await routed.database.put(id, body, deleted: true)
        let collection = try routed.database.collection()
        try await routed.database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc(id)) } != nil }
    }

    @Test("a tombstone that is in none of the peer's channels arrives without its body and blobs", arguments: Names.allCases)
    func tombstones(names: Names) async throws {
        let routed = try await ChannelTests.RoutedHub()
        let anna = hub(routed, names, ["red"])
        for id in ["here", "gone", "moved"] { try await routed.put(id, in: "red") }
        #expect(try await pull(routed, anna, names).rows.count == 4)
        let digest = try await routed.database.blob(Array("secret".utf8))
        let secret = "\"why\":\"hidden\",\"photo\":{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":6}"
        try await delete(routed, "here", "{\"in\":[\"red\"],\"why\":\"told\"}")
        try await delete(routed, "gone", "{\"in\":[\"blue\"],\(secret)}")
        try await routed.put("moved", in: "blue")
        try await delete(routed, "moved", "{\"in\":[\"blue\"],\(secret)}")
        let told = try await pull(routed, anna, names)
        #expect(told.body("here")?.contains("told") == true && told.body("gone") == "{}")
        #expect(told.revisions["gone"]?.properties["deleted"] == "1" && told.row("gone")?[3].asInt64 == 1)
        // It left earlier: nothing that happened to it after that is told, not even its revision id.
        #expect(told.row("moved")?[3].asInt64 == 4, "\(told.texts)")
        #expect(told.body("moved") == "{\"_removed\":true}")
        #expect(told.revisions["moved"]?.properties["deleted"] == nil && told.revisions["moved"]?.properties["history"] == nil)
        let current = try #require(try await routed.database.get("moved")).revision
        #expect(told.row("moved")?[2].asString.map { [current.text, "\(VectorVersion(standingFor: current))"].contains($0) } == false)
        for id in ["gone", "moved"] {
            let reply = await told.peer.ask("getAttachment", [("collection", "0"), ("digest", digest), ("docID", id)])
            #expect(reply?.error?.code == 403, "\(id)")
        }
    }

    @Test("a tombstone offered while the peer had its channel is sent without a body if the peer has since lost the channel", arguments: Names.allCases)
    func tombstoneOfALostChannel(names: Names) async throws {
        let routed = try await ChannelTests.RoutedHub()
        try await routed.put("card", give: "{\"anna\":[\"red\"]}")
        try await routed.put("tea", in: "red")
        try await delete(routed, "tea", "{\"in\":[\"red\"],\"why\":\"hidden\"}")
        let peer = try await Peer(hub(routed, names)) { request in request.profile == "changes" ? nil : OutgoingReply() }
        await subscribe(peer, names, since: "0")
        for await request in peer.requests {
            if request.profile == "changes", Self.rows(request).first?[1] == .string("tea") {
                try await routed.put("card")
                peer.reply(to: request.number, Self.wish(for: request))
            } else if request.profile == "rev" {
                #expect(request.properties["id"] == "tea" && request.properties["deleted"] == "1")
                #expect(String(buffer: request.body) == "{}")
                break
            }
        }
    }

    @Test("a peer that loses a channel is told so once, and learns nothing of what is written there later", arguments: Names.allCases)
    func afterAccessEnded(names: Names) async throws {
        let routed = try await ChannelTests.RoutedHub()
        let anna = hub(routed, names)
        // It leaves before anna gets the channel.
        try await routed.put("old", in: "red")
        try await routed.put("old", in: "blue")
        try await routed.put("card", give: "{\"anna\":[\"red\"]}")
        for id in ["a", "b"] { try await routed.put(id, in: "red") }
        let had = try await pull(routed, anna, names)
        #expect(had.row("old") == nil && had.row("a") != nil && had.row("b") != nil, "\(had.texts)")
        let since = try #require(had.row("end")?[0]).text
        try await routed.put("card")
        let lost = try await pull(routed, anna, names, since: since)
        #expect(lost.row("a")?[3].asInt64 == 2 && lost.row("b")?[3].asInt64 == 2 && lost.texts.count == 2, "\(lost.texts)")
        // Documents are changed in place, moved and deleted.
        try await routed.put("a", in: "red", give: "{\"x\":[]}")
        try await routed.put("b", in: "blue")
        try await delete(routed, "b", "{\"in\":[\"blue\"],\"why\":\"hidden\"}")
        let again = try await pull(routed, anna, names, since: since)
        #expect(again.texts == lost.texts)
        // A client that resumes from the last position it was told gets nothing more.
        let place = try #require(lost.row("b")?[0]).text
        #expect(try await pull(routed, anna, names, since: place).texts == [])
        // What it was told is not a revision id with which the document could be edited.
        let name = try #require(again.row("a")?[2].asString)
        let before = try await routed.database.body("a")
        let revision = names == .ids ? "2-ffff" : "18e9000000000009@ABEiM0RVZneImaq7zN3u/w"
        let reply = await again.peer.ask("rev", [("collection", "0"), ("id", "a"), ("rev", revision), ("history", name)], "{\"mine\":1}")
        #expect(reply?.error != nil)
        #expect(try await routed.database.body("a") == before)
    }
}
