import Documents
import TestSupport
import Testing

/// After a name was changed in the configuration or removed from it: nothing opens the database any more, and what was not replicated stays in it.
@Suite("Databases that the configuration does not name")
struct UnnamedDatabaseTests {
    /// What `check` says about them.
    private static func warnings(_ folder: TemporaryFolder) async throws -> [String] {
        let outcome = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(outcome.status == 0, "\(outcome)")
        return outcome.errors.split(separator: "\n").map(String.init).filter { $0.contains("does not name") }
    }

    @Test("check names the folder of one, whether or not there are plugins to examine as well", arguments: ["", "plugins: plugins\n"])
    func one(_ plugins: String) async throws {
        let folder = try TemporaryFolder()
        folder.makeFolder("plugins")
        try folder.write("nightjar.yaml", Configuration.plain + plugins)
        // What is named, a folder without a database, and a database that was replaced are none.
        try folder.write("data/main.nightjar/db.sqlite3", "")
        try folder.write("data/empty.nightjar/notes", "")
        try folder.write("data/main.nightjar.before-1/db.sqlite3", "")
        #expect(try await Self.warnings(folder).isEmpty)
        try folder.write("data/old.nightjar/db.sqlite3", "")
        let place = folder.path("data/old.nightjar")
        #expect(
            try await Self.warnings(folder) == [
                "warning: \(place) holds a database that the configuration does not name: nothing opens it, and what was not replicated stays in it"
            ])
    }

    @Test("check names five of them, and counts the others")
    func many() async throws {
        let folder = try TemporaryFolder()
        try folder.write("nightjar.yaml", Configuration.plain)
        for number in 1...5 { try folder.write("data/line-\(number).nightjar/db.sqlite3", "") }
        let five = "holds databases that the configuration does not name: line-1.nightjar, line-2.nightjar, line-3.nightjar, line-4.nightjar, line-5.nightjar"
        let rest = "; nothing opens them, and what was not replicated stays in them"
        #expect(try await Self.warnings(folder) == ["warning: \(folder.path("data")) \(five)\(rest)"])
        for number in 6...7 { try folder.write("data/line-\(number).nightjar/db.sqlite3", "") }
        #expect(try await Self.warnings(folder) == ["warning: \(folder.path("data")) \(five), and 2 more\(rest)"])
    }

    @Test("doctor says what to do about one, with and without an agent", arguments: Place.allCases)
    func remedy(_ place: Place) async throws {
        let documents = try await Documents.at(place)
        try documents.folder.write("data/old.nightjar/db.sqlite3", "")
        let findings = try await documents.run("doctor", "--offline", "--json").json["findings"]?.asArray ?? []
        let found = try #require(findings.first { $0["text"]?.asString?.contains("old.nightjar holds a database") == true }, "\(findings)")
        #expect(found["verdict"] == "warning", "\(found.text)")
        for words in [
            "if its name was changed in the configuration, use the old one there again", "name it again (databases: { old: {} })",
            "move old.nightjar and old.nightjar.known out of the data folder",
        ] {
            #expect(found["mend"]?.asString?.contains(words) == true, "\(words): \(found.text)")
        }
    }

    @Test("an agent says that one needs attention until it is moved away")
    func attention() async throws {
        let agent = try await AgentProcess.start(Configuration.plain)
        func entry() async throws -> JSONValue? { try await agent.status()["attention"]?.asArray?.first { $0["kind"] == "database_unnamed" } }
        #expect(try await entry() == nil)
        try agent.folder.write("data/old.nightjar/db.sqlite3", "")
        let found = try #require(try await entry())
        #expect(found["subject"] == "data folder" && found["gravity"] == "attention", "\(found.text)")
        #expect(found["text"]?.asString?.contains("old.nightjar holds a database") == true, "\(found.text)")
        #expect(found["remedy"]?.asString?.contains("move old.nightjar and old.nightjar.known out of the data folder") == true, "\(found.text)")
        try agent.folder.rename("data/old.nightjar", to: "old")
        #expect(try await entry() == nil)
        #expect(try await agent.stop().status == 0)
    }
}
