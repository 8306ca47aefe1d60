import DocumentStore
import Documents
import Interfaces
import Replication
import Synchronization
import Testing

/// A sync function that is replaced while it is being asked.
@Suite(.timeLimit(.minutes(10))) struct OvertakenRoutingTests {
    /// Its first version fails on every document, and takes its time over `b`; the second puts everything into `red`.
    private final class SlowSync: SyncFunction, Sendable {
        let pluginName = "slow-sync"
        let versions = Versions()
        var version: String { versions.current }
        private let (asked, isAsked) = AsyncStream.makeStream(of: Void.self)
        private let (opened, isOpened) = AsyncStream.makeStream(of: Void.self)

        func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
            guard version == "1" else { return requests.map { _ in .accepted(SyncAssignment(channels: ["red"])) } }
            if requests.contains(where: { $0.document.id.text == "b" }) {
                isAsked.yield()
                for await _ in opened { break }
            }
            return requests.map { _ in .failed(PolicyFailure(plugin: pluginName, version: "1", kind: "plugin_timeout", message: "slow")) }
        }

        func versionChanges() -> AsyncStream<String> { versions.stream() }

        func waitUntilAsked() async { for await _ in asked { break } }
        func open() { isOpened.yield() }
    }

    @Test func theNextVersionIsAskedAboutWhatItCouldNotDecide() async throws {
        let database = try TestDatabase("hub")
        let function = SlowSync()
        let collection = try database.collection()
        let router = ChannelRouter(database: database.database, collection: collection, function: function, listener: "hub", logger: quietLogger())
        await router.start()
        @Sendable func isInRed(_ id: String) async throws -> Bool {
            try await database.database.read { try $0.assignedChannels(collection, doc(id)) } == ["red"]
        }
        try await database.put("a", "{}")
        try await database.wait { try await $0.database.statistics().map(\.unrouted) == [1] }
        try await database.put("b", "{}")
        await function.waitUntilAsked()
        // The second version goes through what the first has left undecided, and nothing is noted about `b` yet.
        function.versions.become("2")
        try await database.wait { _ in try await isInRed("a") }
        function.open()
        try await database.wait { _ in try await isInRed("b") }
        await router.stop()
    }
}
