import Logging
import LuaRuntime
import PluginHost
import Testing

/// `nightjar.state` as the agent keeps it.
@Suite(.timeLimit(.minutes(1)))
struct StateStoreTests {
    private static let values: [(String, LuaValue)] = [
        ("text", .text("naïve\n")), ("integer", .integer(.max)), ("number", .number(0.1)), ("flag", .bool(false)), ("null", .null),
        ("list", .array([.integer(1), .array([]), .object([])])), ("table", .members([("a", .members([("b", .null)]))])), ("", .integer(1)),
    ]

    @Test func valuesComeBackAsTheyWere() throws {
        let data = Folder()
        let store = PluginStateStore(folder: data("state"), logger: quiet)
        for (key, value) in Self.values { try store.write(plugin: "a", key: key, value: value) }
        try store.write(plugin: "b", key: "text", value: .text("another's"))
        store.flush()
        let again = PluginStateStore(folder: data("state"), logger: quiet)
        for (key, value) in Self.values { #expect(try again.read(plugin: "a", key: key) == value) }
        #expect(try again.read(plugin: "a", key: "other") == .missing)
        #expect(try again.read(plugin: "b", key: "text") == .text("another's"))
        try again.write(plugin: "a", key: "text", value: .missing)
        again.flush()
        #expect(try PluginStateStore(folder: data("state"), logger: quiet).read(plugin: "a", key: "text") == .missing)
        #expect(data.names(in: "state") == ["a.json", "b.json"])
    }

    @Test func aWriteReachesTheFileByItself() async throws {
        let data = Folder()
        var limits = PluginHostLimits()
        limits.stateFlushMilliseconds = 10
        let store = PluginStateStore(folder: data("state"), limits: limits, logger: quiet)
        for number in 1...3 {
            try store.write(plugin: "a", key: "n", value: .integer(Int64(number)))
            while try PluginStateStore(folder: data("state"), logger: quiet).read(plugin: "a", key: "n") != .integer(Int64(number)) {
                try await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    @Test func limitsAreNamed() throws {
        let store = PluginStateStore(folder: Folder()("state"), logger: quiet)
        func refusal(_ key: String, _ value: LuaValue) -> String {
            do { try store.write(plugin: "a", key: key, value: value) } catch { return error.message }
            return ""
        }
        #expect(refusal(String(repeating: "k", count: 201), .null).contains("state key = 200"))
        #expect(refusal("a", .text(String(repeating: "v", count: 70_000))).contains("state value = 65536"))
        for number in 0..<1_000 { #expect(refusal("n\(number)", .integer(1)) == "") }
        #expect(refusal("one more", .integer(1)).contains("state entries = 1000"))
        #expect(refusal("n5", .integer(2)) == "")
        let big = LuaValue.text(String(repeating: "v", count: 60_000))
        #expect((0..<20).map { refusal("n\($0)", big) }.contains { $0.contains("state bytes = 1048576") })
        // Another plugin is not touched by it.
        #expect(throws: Never.self) { try store.write(plugin: "b", key: "a", value: .integer(1)) }
    }

    @Test func aDamagedFileIsNotOverwritten() throws {
        let data = Folder()
        data.make("state")
        data.write("state/a.json", "{ half")
        let store = PluginStateStore(folder: data("state"), logger: quiet)
        do {
            _ = try store.read(plugin: "a", key: "x")
            Issue.record("a damaged file must be told")
        } catch { #expect(error.message.contains("state/a.json"), "\(error)") }
        #expect(throws: PluginServiceRefusal.self) { try store.write(plugin: "a", key: "x", value: .integer(1)) }
        store.flush()
        #expect(data.text("state/a.json") == "{ half")
    }

    @Test func aFullDiskKeepsTheValueInMemory() throws {
        let store = PluginStateStore(folder: "/proc/no-such-folder/state", logger: quiet)
        try store.write(plugin: "a", key: "n", value: .integer(1))
        store.flush()
        #expect(try store.read(plugin: "a", key: "n") == .integer(1))
    }
}
