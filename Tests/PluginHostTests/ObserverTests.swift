import Documents
import Interfaces
import LuaRuntime
import PluginHost
import Synchronization
import Testing

/// Plugins that are told what a replicator does.
@Suite(.timeLimit(.minutes(10)))
struct ObserverTests {
    /// Notes what plugins count.
    private final class Services: PluginServices {
        let counted = Mutex([String]())
        func count(plugin: String, name: String, value: Double, labels: [(String, String)]) {
            counted.withLock { $0.append(([name, "\(Int(value))"] + labels.map { "\($0.0)=\($0.1)" }).joined(separator: " ")) }
        }
        func take() -> [String] { counted.withLock { all in defer { all = [] }; return all } }
    }

    private static let onStatus = """
        on_status = function(status, ctx)
          if status.activity == "broken" then error("no") end
          nightjar.metrics.count(status.activity, 1, { replicator = ctx.replicator, database = ctx.database, remote = ctx.remote })
        end,
        """

    private func tell(_ observer: PluginObserver, _ hook: LuaHook, _ news: String) async {
        await observer.tell(hook, Array(news.utf8), database: "main", replicator: "hub", remote: "ws://hub/main")
    }

    @Test func theHooksThatItHasAreToldAlsoOnesThatComeLater() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { \(Self.onStatus) }")
        let services = Services()
        try await withHost(folder.path, services: services) { host, events in
            let observer = try host.observer(plugin: "a", usedBy: "replicator hub observer")
            #expect(host.status("a")?.usedBy == ["replicator hub observer on_status"])
            await tell(observer, .onStatus, #"{"activity":"idle"}"#)
            await tell(observer, .onDocuments, #"[{"id":"x"}]"#)
            #expect(services.take() == ["idle 1 database=main remote=ws://hub/main replicator=hub"])
            folder.save("a.lua", "return { \(Self.onStatus) on_documents = function(documents) nightjar.metrics.count('documents', #documents) end }")
            try await events.reloaded("a")
            await tell(observer, .onDocuments, #"[{"id":"x"},{"id":"y"}]"#)
            #expect(services.take() == ["documents 2"])
            #expect(host.status("a")?.usedBy == ["replicator hub observer on_documents", "replicator hub observer on_status"])
        }
    }

    @Test func aVersionMayLeaveOneOfTheHooksOutAndNotBoth() async throws {
        let folder = Folder()
        let onDocuments = "on_documents = function(documents) nightjar.metrics.count('documents', #documents) end,"
        folder.write("a.lua", "return { \(Self.onStatus) \(onDocuments) }")
        let services = Services()
        try await withHost(folder.path, services: services) { host, events in
            let observer = try host.observer(plugin: "a", usedBy: "replicator hub observer")
            func tellBoth() async -> [String] {
                await tell(observer, .onStatus, #"{"activity":"idle"}"#)
                await tell(observer, .onDocuments, #"[{"id":"x"}]"#)
                return services.take()
            }
            let status = "idle 1 database=main remote=ws://hub/main replicator=hub"
            #expect(await tellBoth() == [status, "documents 1"])
            folder.save("a.lua", "return { \(onDocuments) }")
            try await events.reloaded("a")
            #expect(await tellBoth() == ["documents 1"])
            #expect(host.status("a")?.usedBy == ["replicator hub observer on_documents"])
            folder.save("a.lua", "return { \(Self.onStatus) }")
            try await events.reloaded("a")
            #expect(await tellBoth() == [status])
            folder.save("a.lua", passes("true"))
            #expect(try await events.refused("a").message == "replicator hub observer needs on_status or on_documents, and this version has neither; it has push_filter")
            #expect(await tellBoth() == [status])
            folder.save("a.lua", "return { \(Self.onStatus) \(onDocuments) description = 'both again' }")
            try await events.reloaded("a")
            #expect(await tellBoth() == [status, "documents 1"])
            #expect(host.status("a")?.usedBy == ["replicator hub observer on_documents", "replicator hub observer on_status"])
        }
    }

    @Test func failuresAndWhatIsMissedAreCounted() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { \(Self.onStatus) on_documents = function() end }")
        try await withHost(folder.path) { host, events in
            let observer = try host.observer(plugin: "a", usedBy: "replicator hub observer")
            for _ in 0..<60 { await tell(observer, .onStatus, #"{"activity":"broken"}"#) }
            await tell(observer, .onDocuments, "[]")
            observer.missed(7)
            let status = try #require(host.status("a"))
            #expect(status.errors == 50 && status.calls == 51, "\(status)")
            #expect(status.perHook.map { "\($0.name) \($0.notAsked)" } == ["on_documents 7", "on_status 10"])
            // It is not called until it is mended.
            folder.save("a.lua", "return { on_status = function() end, on_documents = function() end }")
            try await events.reloaded("a")
            await tell(observer, .onStatus, #"{"activity":"broken"}"#)
            #expect(host.status("a")?.calls == 52)
        }
    }

    @Test func aPluginWithoutAnyOfThemIsNoObserver() async throws {
        let folder = Folder()
        folder.write("a.lua", passes("true"))
        try await withHost(folder.path) { host, _ in
            let error = #expect(throws: PluginError.self) { try host.observer(plugin: "a", usedBy: "replicator hub observer") }
            #expect(error?.description.contains("has no on_status and no on_documents; it has push_filter") == true, "\(String(describing: error))")
        }
    }

    @Test func aPluginMakesTokensOrSessions() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { get_session = function(ctx) return { session_id = ctx.replicator, expires = 1 } end }")
        folder.write("b.lua", "return { token = function() return 't' end, get_session = function() return {} end }")
        folder.write("c.lua", passes("true"))
        try await withHost(folder.path) { host, _ in
            let sessions = try host.tokenSource(plugin: "a", usedBy: "replicator hub authenticator")
            #expect(sessions.givesSessions)
            #expect(try await sessions.token(replicator: "hub", remote: "r").get() == PeerToken(text: "hub", cookie: "SyncGatewaySession", seconds: 0))
            let tokens = try host.tokenSource(plugin: "b", usedBy: "replicator hub authenticator")
            #expect(!tokens.givesSessions)
            #expect(try await tokens.token(replicator: "hub", remote: "r").get() == PeerToken(text: "t"))
            let error = #expect(throws: PluginError.self) { try host.tokenSource(plugin: "c", usedBy: "replicator hub authenticator") }
            #expect(error?.description.contains("has no token and no get_session; it has push_filter") == true, "\(String(describing: error))")
        }
    }

    @Test func oneIsTriedOnAFile() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { on_documents = function(documents) nightjar.log.info(documents[1].id, { count = #documents }) end }")
        func run(_ text: String) async throws -> [PluginRunner.Report] {
            try await PluginRunner.run(PluginRunner.Request(folder: folder.path, plugin: "a", hook: .onDocuments, input: .news(Array(text.utf8)), environment: .system))
        }
        for (text, count) in [(#"[{"id":"x"},{"id":"y"}]"#, 2), (#"{"id":"x"}"#, 1)] {
            let report = try #require(try await run(text).first)
            #expect(report.failure == nil && report.result?.isNull == true)
            #expect(report.log == [PluginRunner.LogLine(level: "info", message: "x", fields: .members([("count", .integer(Int64(count)))]))])
        }
        await #expect(throws: PluginRunner.InputProblem.self) { try await run("[1]") }
    }
}
