import Interfaces
import Logging
import LuaRuntime
import PluginHost
import Testing

/// `limits` in a plugin's own table.
@Suite(.timeLimit(.minutes(10)))
struct DeclaredLimitTests {
    private func failure(_ limits: String, _ statement: String, host limitsOfHost: PluginHostLimits = quick) async throws -> PolicyFailure? {
        let folder = Folder()
        folder.write("a.lua", "return { limits = { \(limits) }, push_filter = function() \(statement) return true end }")
        return try await withHost(folder.path, limits: limitsOfHost) { host, _ in
            if let refused = host.status("a")?.refused { return PolicyFailure(plugin: "a", version: "", kind: "refused", message: refused.error) }
            return try await host.filter("a").failure("{}")
        }
    }

    private static let million = "for i = 1, 1000000 do end"

    @Test func aPluginMayAskForLessAndForMore() async throws {
        #expect(try await failure("", Self.million) == nil)
        #expect(try await failure("instructions = 100000", Self.million)?.kind == "plugin_timeout")
        #expect(try await failure("instructions = 60000000, cpu_ms = 500", "for i = 1, 11000000 do end") == nil)
        // What runs before the watch has noticed a call is charged by time: far more than the limit here.
        #expect(try await failure("", "for i = 1, 60000000 do end")?.kind == "plugin_timeout")
        let large = "local t = {} for i = 1, 250 do t[i] = string.rep('x', 100000) .. i end"
        #expect(try await failure("cpu_ms = 500", large)?.kind == "plugin_memory")
        #expect(try await failure("cpu_ms = 500, memory = 48 * 1024 * 1024", large) == nil)
        #expect(try await failure("memory = 2 * 1024 * 1024", "local t = {} for i = 1, 40 do t[i] = string.rep('x', 100000) .. i end")?.kind == "plugin_memory")
    }

    @Test func theCeilingHolds() async throws {
        for (limits, message) in [
            ("cpu_ms = 5000", "a.lua:1: limits.cpu_ms = 5000 is beyond the host's ceiling of 500"),
            ("memory = 1 << 40", "is beyond the host's ceiling of 67108864"),
            ("instruction = 5", "unknown limit \"instruction\": expected memory, cpu_ms, instructions, resolver_cpu_ms, resolver_instructions, log_lines; did you mean instructions?"),
            ("cpu_ms = 'long'", "limits.cpu_ms must be a whole number of at least 1, not \"long\""),
            ("cpu_ms = 0", "limits.cpu_ms must be a whole number of at least 1, not 0"),
            ("log_lines = 1e9", "log_lines"),
        ] {
            let refused = try await failure(limits, "")
            #expect(refused?.kind == "refused" && refused?.message.contains(message) == true, "\(limits): \(refused?.message ?? "taken")")
        }
    }

    @Test func theConfigurationHasTheLastWord() async throws {
        var host = quick
        var own = PluginLimits()
        own.filter.instructions = 500_000
        own.authenticator = own.filter
        host.perPlugin["a"] = own
        #expect(try await failure("instructions = 50000000", Self.million, host: host)?.kind == "plugin_timeout")
        own.filter.instructions = 2_000_000_000
        own.filter.cpuMilliseconds = 5_000
        own.authenticator = own.filter
        host.perPlugin["a"] = own
        #expect(try await failure("instructions = 1000000000", "for i = 1, 11000000 do end", host: host) == nil)
        own.filter.instructions = 20_000
        own.authenticator = own.filter
        host.perPlugin["a"] = own
        #expect(try await failure("cpu_ms = 10", Self.million, host: host)?.message.contains("20000") == true)
    }

    @Test func logLinesAreLimitedAndCounted() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { limits = { log_lines = 5 }, push_filter = function() for i = 1, 20 do nightjar.log.info('x') end return true end }")
        try await withHost(folder.path) { host, _ in
            let filter = try host.filter("a")
            _ = await filter.judge("{}")
            let dropped = try #require(host.status("a")?.limitHits.logLinesDropped)
            // The second may change in between.
            #expect(dropped >= 10 && dropped <= 15)
        }
    }
}
