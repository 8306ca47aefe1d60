import Logging
import LuaRuntime
import PluginHost
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)))
struct LogTests {
    final class Lines: Sendable {
        let all = Mutex<[String]>([])
    }

    struct Handler: LogHandler {
        let lines: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level = .trace
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) {
            let all = metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
            lines.all.withLock { $0.append("\(event.level) \(event.message) \(all.joined(separator: " "))") }
        }
    }

    @Test func linesCarryThePluginAndAreLimited() async throws {
        let folder = Folder()
        folder.write("talk.lua", "return { push_filter = function(doc) nightjar.log.error('said ' .. doc.n, { id = doc._id }) return true end }")
        let lines = Lines()
        try await withHost(folder.path, logger: Logger(label: "test", factory: { _ in Handler(lines: lines) })) { host, _ in
            let filter = try host.filter("talk")
            _ = await filter.evaluate((0..<5000).map { document("{\"n\":\($0)}") }, push)
            let said = lines.all.withLock { $0.filter { $0.contains("said") } }
            #expect(said.first == "error said 0 id=doc plugin=talk")
            let dropped = try #require(host.status("talk")).limitHits.logLinesDropped
            #expect(said.count + Int(dropped) == 5000)
            #expect(dropped > 0)
        }
    }
}
