import DocumentStore
import Documents
import Environment
import Interfaces
import Logging
import Replication
import Synchronization
import TestSupport
import Testing

@testable import Agent

/// Resyncs beside each other and beside reloads.
@Suite struct ResyncsTests {
    /// Puts everything into a channel that is called like its version, once it is let.
    private final class GatedSync: SyncFunction, Sendable {
        let pluginName = "gated"
        private let state = Mutex((version: "1", isOpen: true))
        var version: String { state.withLock { $0.version } }

        func become(_ version: String, isOpen: Bool) { state.withLock { $0 = (version, isOpen) } }

        func assign(_ requests: [SyncRequest], _ context: PolicyContext) async -> [SyncVerdict] {
            while !state.withLock({ $0.isOpen }), !Task.isCancelled { try? await Task.sleep(for: .milliseconds(2)) }
            let channel = version
            return requests.map { _ in .accepted(SyncAssignment(channels: [channel])) }
        }

        func versionChanges() -> AsyncStream<String> { AsyncStream { $0.finish() } }
    }

    @Test("only one runs for a database at a time; a reload makes it start over, or ends it if no listener serves the database any more")
    func reload() async throws {
        let folder = try TemporaryFolder()
        let database = try Database.open(folder: folder.path("main.nightjar"), name: "main", options: DatabaseOptions(), environment: .system)
        defer { database.close() }
        let collection = try #require(database.collection(.default))
        let (function, id) = (GatedSync(), try DocumentID("a"))
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let time = Environment.system.time
        let resyncs = Resyncs(time: time, audit: AuditLog(dataFolder: folder.path, time: time, logger: logger), logger: logger)
        @Sendable func serve() async {
            await resyncs.serve([ChannelRouter(database: database, collection: collection, function: function, listener: "edge", logger: logger)])
        }
        @Sendable func channels() async throws -> Set<String>? { try await database.read { try $0.assignedChannels(collection, id) } }
        try await database.write { transaction in
            let saved = try transaction.save(collection, id: id, body: Array("{}".utf8), deleted: false, parent: nil)
            try transaction.route(collection, id, saved.revision, DocumentRoute(channels: ["1"], plugin: "gated", version: "1"))
        }
        let all = ResyncRequest(database: "main")
        await serve()
        #expect(await !resyncs.isOutdated("main"))
        await #expect(throws: AgentError.self) { _ = try await resyncs.start(ResyncRequest(database: "other")) }

        function.become("2", isOpen: false)
        #expect(await resyncs.isOutdated("main"))
        _ = try await resyncs.start(all)
        await #expect(throws: AgentError.self) { _ = try await resyncs.start(all) }
        await resyncs.stop()
        #expect(try await channels() == ["1"])
        await serve()
        #expect(await resyncs.report("main")?.state == .running)
        function.become("2", isOpen: true)
        try await eventually("it is done") { await resyncs.report("main")?.state == .done }
        #expect(await resyncs.report("main")?.restarts == 1)
        #expect(try await channels() == ["2"])
        #expect(await !resyncs.isOutdated("main"))

        function.become("3", isOpen: false)
        _ = try await resyncs.start(all)
        await resyncs.stop()
        await resyncs.serve([])
        let ended = await resyncs.report("main")
        #expect(ended?.state == .interrupted && ended?.error?.contains("no listener serves") == true)
        #expect(try await channels() == ["2"])
    }
}
