import LuaRuntime
import PluginHost
import Testing

@Suite(.timeLimit(.minutes(10)))
struct TemplateTests {
    @Test(arguments: LuaHook.allCases)
    func aNewPluginPassesItsOwnTests(hook: LuaHook) async throws {
        let files = try PluginTemplate.files(hook, name: "mine")
        let folder = Folder()
        for file in files { folder.write(file.path, file.text) }
        let suites = try await PluginTests.run(folder: folder.path, environment: .system)
        #expect(suites.count == 1)
        #expect(suites.allSatisfy { $0.isPassed && $0.outcomes.count >= 3 }, "\(suites)")
        let check = try await PluginCheck.run(folder: folder.path, proof: ProofByTests(), environment: .system)
        #expect(check.problems.isEmpty)
        #expect(check.plugins.first?.hooks == [hook.rawValue])
    }

    @Test func namesAreChecked() {
        #expect(throws: PluginError.invalidName("../x")) { try PluginTemplate.files(.pushFilter, name: "../x") }
    }

    @Test func aFailedEqualityTellsTheFields() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { resolve = function() return { price = 1, tags = { 'a', 'b' }, deep = { x = 1 } } end }")
        folder.write("a.test.lua", """
            return { merge = function(t)
              t.equal(t.resolve { local_doc = {}, remote_doc = {} }, { price = 2, tags = { 'a', 'c', 'd' }, deep = { x = 1, y = { 1 } }, ["odd key"] = true })
            end, other = function(t)
              pcall(t.equal, 1, 2)
              t.accept(false)
            end, scalar = function(t) t.equal(nil, 5) end }
            """)
        let outcomes = try await PluginTests.run(folder: folder.path, environment: .system)[0].outcomes
        #expect(outcomes.map(\.name) == ["merge", "other", "scalar"])
        #expect(outcomes[0].problem?.line == 2)
        #expect(outcomes[0].differences == [
            "deep.y: got nothing, expected [1]", "price: got 1, expected 2", "tags[2]: got \"b\", expected \"c\"", "tags[3]: got nothing, expected \"d\"",
            "[\"odd key\"]: got nothing, expected true",
        ])
        #expect(outcomes[1].differences.isEmpty)
        #expect(outcomes[2].differences == ["value: got nothing, expected 5"])
    }

    @Test func testsHaveAStateOfTheirOwn() async throws {
        let folder = Folder()
        folder.write("a.lua", "return { push_filter = function() nightjar.state.n = (nightjar.state.n or 0) + 1 nightjar.metrics.count('x', 1) return nightjar.get('other') == nil and nightjar.state.n < 3 end }")
        folder.write("a.test.lua", "return { counts = function(t) t.accept(t.push_filter{}) t.accept(t.push_filter{}) t.reject(t.push_filter{}) end }")
        let suites = try await PluginTests.run(folder: folder.path, environment: .system)
        #expect(suites[0].isPassed, "\(suites)")
    }
}
