import BLIP
import Documents
import DocumentStore
import Interfaces
import Replication
import Testing

/// A listener with a sync function: what peers may push, what they get, and what is removed from them.
@Suite(.timeLimit(.minutes(10)))
struct ChannelTests {
    /// A hub whose documents are routed, with a listener for each of its users.
    struct RoutedHub {
        let database: TestDatabase
        let function = TestSync()
        let router: ChannelRouter

        init() async throws {
            database = try TestDatabase("hub")
            router = ChannelRouter(
                database: database.database, collection: try database.collection(), function: function, listener: "hub", logger: quietLogger())
            await router.start()
        }

        func hub(
            _ user: String?, _ channels: [String]? = nil, readOnly: Bool = false, subprotocol: Subprotocol = .generation3
        ) -> Hub {
            Hub(
                PassiveConfiguration(
                    listener: "hub", database: database.database, principal: Principal(name: user, isReadOnly: readOnly, channels: channels),
                    syncFunction: function, subprotocol: subprotocol),
                owner: database)
        }

        func put(_ id: String, in channels: String..., give: String = "{}", deleted: Bool = false) async throws {
            let list = channels.map { "\"\($0)\"" }.joined(separator: ",")
            try await database.put(id, deleted ? "{}" : "{\"in\":[\(list)],\"give\":\(give)}", deleted: deleted)
            let collection = try database.collection()
            try await database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc(id)) } != nil }
        }
    }

    private func ids(_ database: TestDatabase) async throws -> [String] {
        let collection = try database.collection()
        return try await database.database.read {
            try $0.changes(collection, since: 0, limit: 1000, includeBodies: false, includeDeleted: false).map(\.id.text).sorted()
        }
    }

    @Test func peersGetWhatIsInTheirChannels() async throws {
        let hub = try await RoutedHub()
        try await hub.put("a", in: "red")
        try await hub.put("b", in: "blue")
        try await hub.put("c", in: "red", "blue")
        try await hub.put("d", in: "!")
        try await hub.put("e")
        for (user, channels, expected) in [
            ("anna", ["red"], ["a", "c", "d"]), ("ben", nil, ["d"]), (nil, nil, ["d"]), ("eve", ["*"], ["a", "b", "c", "d", "e"]),
        ] as [(String?, [String]?, [String])] {
            let device = try TestDatabase("device")
            let status = await replicate(device, hub.hub(user, channels), .pull)
            #expect(status.error == nil)
            #expect(try await ids(device) == expected)
        }
        // The channels that the client asks for narrow this further, and never widen it.
        for (asked, expected) in [(["blue"], []), (["red"], ["a", "c"]), (["red", "!"], ["a", "c", "d"]), (["*"], ["a", "c", "d"])] {
            let device = try TestDatabase("device")
            let status = await replicate(device, hub.hub("anna", ["red"]), .pull) { $0.only { $0.channels = asked } }
            #expect(status.error == nil)
            #expect(try await ids(device) == expected, "\(asked)")
        }
    }

    /// Each user has their own checkpoint at the hub.
    @Test func aSecondUserGetsWhatTheFirstCouldNotSeeAndNothingCountsAsLost() async throws {
        let (hub, device) = (try await RoutedHub(), try TestDatabase("device"))
        try await hub.put("a", in: "red")
        try await hub.put("b", in: "blue")
        try await hub.put("c", in: "red")
        for (user, channel, expected) in [("anna", "red", ["a", "c"]), ("ben", "blue", ["a", "b", "c"]), ("ben", "blue", ["a", "b", "c"]), ("anna", "red", ["a", "b", "c"])] {
            let status = await replicate(device, hub.hub(user, [channel]), .pull) { $0.login = "user \(user)" }
            #expect(status.error == nil && status.wentBack == nil, "\(user): \(status)")
            #expect(try await ids(device) == expected, "\(user)")
        }
        // With the same login at a different remote, the checkpoint counts as lost.
        let restored = try await RoutedHub()
        try await restored.put("a", in: "red")
        #expect(await replicate(device, restored.hub("anna", ["red"]), .pull) { $0.login = "user anna" }.wentBack != nil)
    }

    @Test func unroutedDocumentsAreTriedAgainWhenTheSameVersionIsAnnouncedAgain() async throws {
        let hub = try await RoutedHub()
        func failing(_ ids: String...) -> TestSync.Rule {
            { object, request in
                if !ids.contains(request.document.id.text) { return TestSync.byFields(object, request) }
                let message = "sync.lua:1: no channel for \(request.document.id)"
                return .failed(PolicyFailure(plugin: "test-sync", version: "1", kind: "plugin_error", message: message))
            }
        }
        hub.function.become("1", failing("a", "b"))
        for id in ["a", "b", "c"] { try await hub.put(id, in: "red") }
        #expect(try await hub.database.database.statistics().map(\.unrouted) == [2])
        let device = try TestDatabase("device")
        await replicate(device, hub.hub("anna", ["red"]), .pull)
        #expect(try await ids(device) == ["c"])
        // An operator asks for it, or the plugin works again: the version is the same, and still there is a reason to ask again.
        hub.function.become("1", failing("b"))
        try await hub.database.wait { try await $0.database.statistics().map(\.unrouted) == [1] }
        await replicate(device, hub.hub("anna", ["red"]), .pull)
        #expect(try await ids(device) == ["a", "c"])
        let collection = try hub.database.collection()
        let left = try await hub.database.database.read { try $0.unassigned(collection, limit: 10) }
        #expect(left.map(\.0.text) == ["b"] && left.first?.1.error.contains("no channel for b") == true)
    }

    @Test func aPrincipalIsLimitedToItsChannelsEvenWithoutASyncFunction() async throws {
        let database = try TestDatabase("hub")
        try await database.put("a", "{\"in\":[\"red\"]}")
        let hub = Hub(PassiveConfiguration(listener: "hub", database: database.database, principal: Principal(name: "anna", channels: ["red"])))
        let device = try TestDatabase("device")
        #expect(await replicate(device, hub, .pull).error == nil)
        #expect(try await ids(device).isEmpty)
        let all = Hub(PassiveConfiguration(listener: "hub", database: database.database, principal: Principal(name: "anna", channels: ["*"])))
        #expect(await replicate(device, all, .pull).error == nil)
        #expect(try await ids(device) == ["a"])
    }

    @Test func aDocumentThatLeavesThePeersChannelsIsPurgedThereOnceEvenAfterAResume() async throws {
        let hub = try await RoutedHub()
        let anna = hub.hub("anna", ["red"])
        try await hub.put("a", in: "red")
        try await hub.put("b", in: "red")
        try await hub.put("c", in: "red")
        let device = try TestDatabase("device")
        await replicate(device, anna, .pull)
        #expect(try await ids(device) == ["a", "b", "c"])
        try await hub.put("a", in: "blue")
        try await hub.put("a", in: "green")
        try await hub.put("b", deleted: true)
        let replicator = Replicator(ReplicatorConfiguration(device, .pull), anna)
        let events = replicator.documentEvents()
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.completed == status.counts.total)
        #expect(try await ids(device) == ["c"])
        #expect(try await device.get("a") == nil)
        #expect(try await device.get("b")?.isDeleted == true)
        var removed: [String] = []
        for await batch in events {
            removed += batch.filter(\.isAccessRemoved).map(\.id.text)
            if !removed.isEmpty { break }
        }
        #expect(removed == ["a"])
        status = await replicator.run()
        #expect(status.error == nil && status.counts.total == 0)
        // The body of the revision that removed it never left the hub.
        #expect(anna.counters.snapshot.pushed == 4)
    }

    @Test func aFilterOrASettingKeepsRemovedDocuments() async throws {
        let hub = try await RoutedHub()
        let anna = hub.hub("anna", ["red"])
        try await hub.put("keep", in: "red")
        try await hub.put("drop", in: "red")
        let (filtered, unpurged) = (try TestDatabase("filtered"), try TestDatabase("unpurged"))
        let filter = TestFilter { document, _ in document.accessRemoved && document.id.text == "keep" ? .reject : .pass }
        let (other, settings) = (hub.hub("ben", ["red"]), filter)
        await replicate(filtered, anna, .pull) { $0.only { $0.pullFilter = settings } }
        await replicate(unpurged, other, .pull) { $0.autoPurge = false }
        try await hub.put("keep")
        try await hub.put("drop")
        await replicate(filtered, anna, .pull) { $0.only { $0.pullFilter = settings } }
        let status = await replicate(unpurged, other, .pull) { $0.autoPurge = false }
        #expect(status.error == nil)
        #expect(try await ids(filtered) == ["keep"])
        #expect(try await ids(unpurged) == ["drop", "keep"])
    }

    @Test func accessGrantedByADocumentTakesEffectWhileConnectedAndEndsAgain() async throws {
        let hub = try await RoutedHub()
        try await hub.put("a", in: "red")
        try await hub.put("b", in: "blue")
        let device = try TestDatabase("device")
        let replicator = Replicator(ReplicatorConfiguration(device, .pull, continuous: true), hub.hub("anna"))
        await replicator.start()
        await replicator.wait { $0.activity == .idle }
        #expect(try await ids(device).isEmpty)
        try await hub.put("card", in: "red", give: "{\"anna\":[\"red\"]}")
        try await device.wait { try await self.ids($0) == ["a", "card"] }
        try await hub.put("c", in: "red")
        try await device.wait { try await self.ids($0) == ["a", "c", "card"] }
        await replicator.stop()
        // Access ends while the device is disconnected.
        try await hub.put("card", in: "red")
        let status = await replicate(device, hub.hub("anna"), .pull)
        #expect(status.error == nil)
        #expect(try await ids(device).isEmpty)
    }

    @Test func aStoppedEventContinuesWhereItWas() async throws {
        let hub = try await RoutedHub()
        for index in 0..<10 { try await hub.put("d\(index)", in: "red") }
        let collection = try hub.database.collection()
        let since = try await hub.database.database.read { try $0.lastSequence(collection) }
        try await hub.put("card", give: "{\"anna\":[\"red\"]}")
        let peer = try await Peer(hub.hub("anna")) { request in
            request.profile == "changes" ? OutgoingReply(json: "[]") : OutgoingReply()
        }
        await peer.begin()
        _ = await peer.ask("subChanges", [("collection", "0"), ("since", "\(since)")])
        var rows = ""
        for await request in peer.requests where request.profile == "changes" {
            rows = String(buffer: request.body)
            break
        }
        let sequences = rows.split(separator: "\"").filter { $0.contains(":") && !$0.contains(",") }.map(String.init)
        #expect(sequences.count == 10)
        let event = try #require(sequences.first?.split(separator: ":").first)
        #expect(sequences.allSatisfy { $0.hasPrefix("\(event):") })
        let again = try await Peer(hub.hub("anna")) { _ in OutgoingReply(json: "[]") }
        await again.begin()
        _ = await again.ask("subChanges", [("collection", "0"), ("since", "\"\(sequences[6])\"")])
        for await request in again.requests where request.profile == "changes" {
            let text = String(buffer: request.body)
            #expect(text.contains("\"d9\"") && text.contains("\"d7\"") && !text.contains("\"d6\""), "\(text)")
            break
        }
    }

    @Test func olderClientsGetARevisionThatSaysSo() async throws {
        let hub = try await RoutedHub()
        let anna = hub.hub("anna", ["red"], subprotocol: .generation2)
        try await hub.put("a", in: "red")
        let peer = try await Peer(anna) { request in
            request.profile == "changes" ? OutgoingReply(json: "[[]]") : OutgoingReply()
        }
        await peer.begin()
        _ = await peer.ask("subChanges", [("collection", "0"), ("continuous", "true")])
        var bodies: [String] = []
        for await request in peer.requests where request.profile == "rev" {
            bodies.append(String(buffer: request.body))
            if bodies.count == 1 { try await hub.put("a", in: "blue") }
            if bodies.count == 2 { break }
        }
        #expect(bodies == ["{\"in\":[\"red\"],\"give\":{}}", "{\"_removed\":true}"])
    }

    @Test func clientsThatDoNotAskAreNotToldOfRemovals() async throws {
        let hub = try await RoutedHub()
        try await hub.put("a", in: "red")
        try await hub.put("a")
        try await hub.put("b", in: "red")
        for (revocations, count) in [("false", 1), ("true", 2)] {
            let peer = try await Peer(hub.hub("anna", ["red"])) { _ in OutgoingReply(json: "[]") }
            await peer.begin()
            _ = await peer.ask("subChanges", [("collection", "0"), ("revocations", revocations)])
            var text = ""
            for await request in peer.requests where request.profile == "changes" {
                if request.isNoReply { break }
                text += String(buffer: request.body)
            }
            #expect(text.split(separator: "[").count == count, "\(text)")
            if count == 2 { #expect(text.contains(",4,")) }
        }
    }

    @Test func writesAreDecidedWithTheOldRevisionAndTheCaller() async throws {
        let hub = try await RoutedHub()
        let device = try TestDatabase("device")
        try await device.put("mine", "{\"owner\":\"anna\",\"in\":[\"red\"]}")
        try await device.put("bad", "{\"no\":\"not today\"}")
        try await device.put("broken", "{\"fail\":1}")
        let replicator = Replicator(ReplicatorConfiguration(device, .push), hub.hub("anna"))
        let events = replicator.documentEvents()
        var status = await replicator.run()
        #expect(status.error == nil && status.counts.pushed == 1 && status.counts.failed == 2)
        #expect(try await ids(hub.database) == ["mine"])
        var errors: [String: ReplicationError] = [:]
        for await batch in events {
            for event in batch { if let error = event.error { errors[event.id.text] = error } }
            if errors.count == 2 { break }
        }
        #expect(errors["bad"]?.code == 403 && errors["bad"]?.message.contains("not today") == true)
        #expect(errors["broken"]?.code == 503)
        let collection = try hub.database.collection()
        #expect(try await hub.database.database.read { try $0.assignedChannels(collection, doc("mine")) } == ["red"])
        // Somebody else's device changes it, and then the owner's does.
        let other = try TestDatabase("other")
        await replicate(other, hub.hub("ben", ["red"]), .pull)
        try await other.put("mine", "{\"owner\":\"ben\"}")
        status = await replicate(other, hub.hub("ben", ["red"]), .push)
        #expect(status.counts.pushed == 0)
        #expect(try await hub.database.body("mine")?.contains("anna") == true)
        try await device.put("mine", "{\"owner\":\"anna\",\"in\":[\"blue\"]}")
        status = await replicate(device, hub.hub("anna"), .push)
        #expect(status.counts.pushed == 1)
        #expect(hub.function.questions.contains("mine+"))
        #expect(try await hub.database.database.read { try $0.assignedChannels(collection, doc("mine")) } == ["blue"])
        // What failed is pushed again in the next run, when the sync function works.
        hub.function.become("2") { _, _ in .accepted(SyncAssignment(channels: ["mended"])) }
        await replicate(device, hub.hub("anna"), .push)
        #expect(try await hub.database.database.read { try $0.assignedChannels(collection, doc("broken")) } == ["mended"])
    }

    @Test func aReadOnlyPrincipalPullsAndDoesNotPush() async throws {
        let hub = try await RoutedHub()
        try await hub.put("a", in: "red")
        let device = try TestDatabase("device")
        try await device.put("b", "{\"in\":[\"red\"]}")
        let status = await replicate(device, hub.hub("anna", ["red"], readOnly: true))
        #expect(status.error?.code == 403 && status.counts.failed == 0)
        #expect(try await ids(device) == ["a", "b"])
        #expect(try await ids(hub.database) == ["a"])
    }

    @Test func documentsThatSyncCannotRouteStayHiddenUntilItIsFixed() async throws {
        let hub = try await RoutedHub()
        let device = try TestDatabase("device")
        let replicator = Replicator(ReplicatorConfiguration(device, .pull, continuous: true), hub.hub("anna", ["red"]))
        await replicator.start()
        try await hub.database.put("broken", "{\"fail\":1,\"in\":[\"red\"]}")
        try await hub.put("good", in: "red")
        try await device.wait { try await self.ids($0) == ["good"] }
        hub.function.become("2") { _, _ in .accepted(SyncAssignment(channels: ["red"])) }
        try await device.wait { try await self.ids($0) == ["broken", "good"] }
        await replicator.stop()
    }

    @Test func blobsAreGivenOnlyWithTheirDocuments() async throws {
        let hub = try await RoutedHub()
        let digest = try await hub.database.blob(Array("secret".utf8))
        let blob = "{\"@type\":\"blob\",\"digest\":\"\(digest)\",\"length\":6}"
        try await hub.database.put("a", "{\"in\":[\"red\"],\"photo\":\(blob)}")
        let device = try TestDatabase("device")
        #expect(await replicate(device, hub.hub("anna", ["red"]), .pull).error == nil)
        #expect(try await ids(device) == ["a"])
        let peer = try await Peer(hub.hub("ben")) { _ in OutgoingReply(json: "[]") }
        await peer.begin()
        let reply = await peer.ask("getAttachment", [("collection", "0"), ("digest", digest), ("docID", "a")])
        #expect(reply?.error?.code == 403)
    }

    @Test func aFilterOfAnotherNameOrWithoutChannelsIsRefused() async throws {
        let hub = try await RoutedHub()
        for (properties, code) in [
            ([("filter", "app/mine")], 19), ([("filter", "sync_gateway/bychannel")], 400),
            ([("filter", "sync_gateway/bychannel"), ("channels", " , ")], 400), ([("filter", "sync_gateway/bychannel"), ("channels", "red")], nil),
        ] as [([(String, String)], Int?)] {
            let peer = try await Peer(hub.hub("anna", ["red"]))
            await peer.begin()
            #expect(await peer.ask("subChanges", [("collection", "0")] + properties)?.error?.code == code)
        }
    }
}
