import DocumentStore
import Documents
import Interfaces
import Replication
import Synchronization
import Testing

/// A sync function that has been fixed is asked again about stored documents.
@Suite(.timeLimit(.minutes(10))) struct ResyncTests {
    /// How far a resync had come at each report.
    private final class Parts: Sendable {
        private let looked = Mutex([Int]())
        var all: [Int] { looked.withLock { $0 } }
        func add(_ count: Int) { looked.withLock { $0.append(count) } }
    }

    private func ids(_ database: TestDatabase) async throws -> [String] {
        let collection = try database.collection()
        return try await database.database.read {
            try $0.changes(collection, since: 0, limit: 1000, includeBodies: false, includeDeleted: false).map(\.id.text).sorted()
        }
    }

    /// The second version, which moves `a`, rejects `b`, keeps `c` and fails on `d`.
    private let mended: TestSync.Rule = { object, request in
        switch request.document.id.text {
        case "a": .accepted(SyncAssignment(channels: ["blue"]))
        case "b": .rejected(reason: "no")
        case "d": .failed(PolicyFailure(plugin: "test-sync", version: "2", kind: "plugin_error", message: "sync.lua:1: broken"))
        default: TestSync.byFields(object, request)
        }
    }

    @Test func documentsMoveToWhereTheFunctionPutsThem() async throws {
        let hub = try await ChannelTests.RoutedHub()
        for id in ["a", "b", "d"] { try await hub.put(id, in: "red") }
        try await hub.put("c", in: "blue")
        let (anna, ben) = (try TestDatabase("anna"), try TestDatabase("ben"))
        func pull() async {
            #expect(await replicate(anna, hub.hub("anna", ["red"]), .pull).error == nil)
            #expect(await replicate(ben, hub.hub("ben", ["blue"]), .pull).error == nil)
        }
        await pull()
        #expect(try await hub.router.outdated() == nil)
        hub.function.become("2", mended)
        #expect(try await hub.router.outdated() != nil)

        let trial = try await hub.router.resync(isTrial: true)
        #expect(trial?.changedFirst.map(\.id.text) == ["a"] && trial?.refusedFirst.map(\.id.text) == ["b"])
        await pull()
        #expect(try await ids(anna) == ["a", "b", "d"])
        #expect(try await ids(ben) == ["c"])

        let one = try await hub.router.resync(only: doc("c"))
        #expect(one?.looked == 1 && one?.total == 1 && one?.changed == 0)
        let figures = try await hub.router.resync()
        #expect(figures?.looked == 4 && figures?.total == 4 && figures?.changed == 1)
        #expect(figures?.refused == 1 && figures?.refusedFirst.first?.error == "rejected: no")
        #expect(figures?.failed == 1 && figures?.failedFirst.first?.error == "plugin_error: sync.lua:1: broken")
        await pull()
        // A document on which it failed is not removed, since the failure may be a slip.
        #expect(try await ids(anna) == ["d"])
        #expect(try await ids(ben) == ["a", "c"])
        #expect(try await hub.router.outdated() != nil)
        #expect(try await hub.database.database.statistics().map(\.unrouted) == [1])

        // The next version decides about all of them.
        hub.function.become("3", TestSync.byFields)
        #expect(try await hub.router.resync()?.failed == 0)
        #expect(try await hub.router.outdated() == nil)
        try await hub.database.wait { try await $0.database.statistics().map(\.unrouted) == [0] }
        await pull()
        #expect(try await ids(anna) == ["a", "b", "d"])
        #expect(try await ids(ben) == ["c"])
    }

    @Test func aVersionThatTakesOverMeanwhileStartsTheResyncAfresh() async throws {
        let hub = try await ChannelTests.RoutedHub()
        let collection = try hub.database.collection()
        for number in 0..<450 { try await hub.database.put("n\(number)", "{\"in\":[\"red\"]}") }
        try await hub.database.wait { try await $0.database.read { try $0.assignedChannels(collection, doc("n449")) } == ["red"] }
        func all(_ channel: String) -> TestSync.Rule { { _, _ in .accepted(SyncAssignment(channels: [channel])) } }
        hub.function.become("2", all("blue"))
        let (function, green) = (hub.function, all("green"))
        let overtaken = try await hub.router.resync { _ in function.become("3", green) }
        #expect(overtaken == nil)
        // It goes through the documents in parts, and does not meet those again that it has moved.
        let parts = Parts()
        let figures = try await hub.router.resync { parts.add($0.looked) }
        #expect(figures?.looked == 450 && figures?.changed == 450 && figures?.changedFirst.count == ResyncFigures.shown)
        #expect(parts.all == [200, 400, 450])
        #expect(try await hub.router.outdated() == nil)
    }
}
