import Documents
import TestSupport
import Testing

@Suite struct CheckTests {
    private static let good = """
        data: data
        databases:
          main: {}
        listeners:
          - { name: edge, databases: [ main ], port: 0, disable_tls: true }
        """

    private static func check(_ text: String, _ more: String...) async throws -> Subprocess.Outcome {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", text)
        try folder.write("plugins/wants.lua", "return { params = { name = { type = \"string\", required = true } }, push_filter = function() return true end }")
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")] + more, folder: folder.path)
        // It starts nothing and makes nothing.
        #expect(!folder.exists("data"))
        return outcome
    }

    @Test func aGoodConfigurationIsStatus0() async throws {
        let outcome = try await Self.check(Self.good)
        #expect(outcome.status == 0, "\(outcome)")
        #expect(outcome.errors.isEmpty)
        let json = try await Self.check(Self.good, "--json")
        #expect(try json.json["ok"]?.asBool == true)
    }

    /// What is wrong, where it is shown, and words that must be there.
    @Test(arguments: [
        ("data: data\ndatabase:\n  main: {}\n", "2:1", "databases"),
        ("data: data\ndatabases:\n  main: { colections: [ _default ] }\n", "3:11", "collections"),
        ("data: data\nlisteners: 5\n", "2:12", "listeners"),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - { name: e, databases: [ main ], port: 70000, disable_tls: true }\n", "4:43", "70000"),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - { name: e, databases: [ other ], disable_tls: true }\n", "4:29", "other"),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: absent\n",
            "7:18", "absent"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: { plugin: wants, params: { nmae: x } }\n",
            "7:45", "nmae"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    push_filter: { plugin: wants, params: { name: 5 } }\n",
            "7:45", "name"
        ),
        (
            "data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n    disable_tls: true\n    pull_filter: { plugin: wants, params: { name: x } }\n",
            "7:28", "pull_filter"
        ),
        ("data: data\ndatabases: { main: {} }\nlisteners:\n  - name: e\n    databases: [ main ]\n", "4:5", "disable_tls"),
        ("data: [ unfinished\n", "2:1", ""),
    ])
    func problemsAreShownWhereTheyAre(_ text: String, _ position: String, _ words: String) async throws {
        let outcome = try await Self.check(text)
        #expect(outcome.status == 78, "\(outcome)")
        #expect(outcome.errors.contains("nightjar.yaml:\(position): "), "expected \(position): \(outcome)")
        #expect(words.isEmpty || outcome.errors.contains(words), "\(outcome)")
    }

    @Test func everyProblemIsTold() async throws {
        let outcome = try await Self.check("datta: x\ndatabases: { main: { nope: 1 } }\nlisteners: 5\n", "--json")
        #expect(outcome.status == 78)
        #expect(try outcome.json["ok"]?.asBool == false)
        #expect(try outcome.json["problems"]?.asArray?.count == 3, "\(outcome)")
    }

    @Test func aBrokenPluginIsShownWithItsLine() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good)
        try folder.write("plugins/broken.lua", "return {\n  push_filter = function(doc) return doc. end\n}\n")
        let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(outcome.status == 78)
        #expect(outcome.errors.contains("broken.lua:2:"), "\(outcome)")
    }

    @Test func aFileThatIsNotThereIsStatus78() async throws {
        for command in ["check", "run", "status"] {
            let outcome = try await NightjarExecutable.run(command, "--config", "/nowhere/nightjar.yaml")
            #expect(outcome.status == 78, "\(outcome)")
            #expect(outcome.errors.contains("/nowhere/nightjar.yaml"))
        }
    }

    @Test func runRefusesWhatCheckRefuses() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Self.good + "\nbogus: 1\n")
        let outcome = try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(outcome.status == 78)
        #expect(outcome.errors.contains("nightjar.yaml:6:1: "), "\(outcome)")
        #expect(outcome.output.isEmpty)
        #expect(!folder.exists("data"))
    }

    @Test func theSchemaIsJSON() async throws {
        let outcome = try await NightjarExecutable.run("config", "schema")
        #expect(outcome.status == 0)
        #expect(try outcome.json["definitions"]?.asObject != nil)
    }
}
