import Interfaces
import LuaRuntime
import PluginHost
import Testing

@Suite
struct StateTests {
    @Test func valuesAreBoundedByNumberKeyAndSize() throws {
        var table = PluginStateTable()
        try table.write("n", .integer(1))
        try table.write("n", .integer(2))
        #expect(table.read("n") == .integer(2) && table.read("m") == .missing)
        for number in 1..<PluginStateTable.maximumKeys { try table.write("k\(number)", .bool(true)) }
        #expect { try table.write("one more", .null) } throws: { "\($0)".contains("limit state keys = 256") }
        try table.write("k1", .missing)
        try table.write("k1", .missing)
        #expect { try table.write("big", .text(String(repeating: "x", count: PluginStateTable.maximumBytes))) } throws: { "\($0)".contains("limit state bytes") }
        #expect(table.read("big") == .missing)
        for key in ["", String(repeating: "k", count: 101)] {
            #expect { try table.write(key, .null) } throws: { "\($0)".contains("limit state key bytes") }
        }
        try table.write("e\u{301}", .integer(1))
        #expect(table.read("\u{e9}") == .missing)
        #expect(try #require(PluginStateTable(json: table.json)) == table)
        #expect(PluginStateTable(json: Array("[]".utf8)) == nil && PluginStateTable(json: Array("{".utf8)) == nil)
    }

    @Test func sizeIsGivenBack() throws {
        var table = PluginStateTable()
        let large = LuaValue.text(String(repeating: "x", count: 60_000))
        for _ in 0..<10 {
            try table.write("a", large)
            #expect(throws: PluginServiceRefusal.self) { try table.write("b", large) }
            try table.write("a", .missing)
        }
        #expect(table == PluginStateTable())
    }

    @Test func aTrialHasAState() async throws {
        let folder = Folder()
        folder.write("count.lua", passes("(function() nightjar.state.n = (nightjar.state.n or 0) + 1 return nightjar.state.n == 3 end)()"))
        folder.write("flood.lua", "return { push_filter = function() for i = 1, 1000 do nightjar.state['k' .. i] = i end return true end }")
        let reports = try await PluginRunner.run(PluginRunner.Request(
            folder: folder.path, plugin: "count", hook: .pushFilter, input: .document(Array("{}".utf8)), times: 3, environment: .system))
        #expect(reports.map(\.result) == [false, false, true])
        let flood = try await PluginRunner.run(PluginRunner.Request(
            folder: folder.path, plugin: "flood", hook: .pushFilter, input: .document(Array("{}".utf8)), environment: .system))
        #expect(flood[0].failure?.kind == .error && flood[0].failure?.message.contains("limit state keys") == true)
    }
}
