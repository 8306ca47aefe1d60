import Documents
import TestSupport
import Testing

/// A database of which a page and a document's bytes are damaged: an export gives everything else, names what it cannot give, and fails.
@Suite("The export of a damaged database", .serialized)
struct DamagedExportTests {
    private static let count = 3000

    /// Gives the folder, and the ids of documents on the damaged page.
    private func damaged() async throws -> TemporaryFolder {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Configuration.hub(listener: "couchdb: true"), in: folder)
        try await agent.load("doc", Self.count)
        try await agent.save("garbled", "{\"garbled\":\"a text that can be found\"}")
        try await agent.load("last", 10)
        #expect(try await agent.stop().status == 0)
        let name = "data/main.nightjar/db.sqlite3"
        var bytes = try folder.read(name)
        let pageBytes = Int(bytes[16]) << 8 | Int(bytes[17])
        // The page of a document, whichever it is that the index of ids is not on: it holds bodies.
        let page = try #require(Self.places(of: "doc-1500", in: bytes).map { $0 / pageBytes }.max())
        for index in (page * pageBytes)..<(page * pageBytes + 8) { bytes[index] = 0xEE }
        let text = try #require(Self.places(of: "{\"garbled\":", in: bytes).max())
        bytes[text + 10] = UInt8(ascii: "!")
        try folder.write(name, bytes: bytes)
        return folder
    }

    private static func places(of text: String, in bytes: [UInt8]) -> [Int] {
        let wanted = Array(text.utf8)
        return (0..<(bytes.count - wanted.count)).filter { bytes[$0] == wanted[0] && bytes[$0..<($0 + wanted.count)].elementsEqual(wanted) }
    }

    /// The ids of an export's lines.
    private func ids(_ text: String) throws -> [String] {
        try text.split(separator: "\n").map { try JSONValue(parsing: Array($0.utf8))["_id"]?.asString ?? "none: \($0)" }
    }

    private func check(_ export: Subprocess.Outcome, _ exported: String) throws {
        let found = try ids(exported)
        #expect(export.status == 1, "\(export.errors)")
        #expect(!found.contains("doc-1500") && !found.contains("garbled"))
        #expect(found.last == "last-9" && found.contains("doc-0"))
        #expect(found.count > Self.count * 9 / 10 && found.count < Self.count + 10, "\(found.count)")
        let lost = Self.count + 11 - found.count
        #expect(export.errors.contains("document \"garbled\" at sequence \(Self.count + 1) cannot be read: its body is not JSON object"), "\(export.errors)")
        #expect(export.errors.contains("up to \(lost - 1) documents at sequences "), "\(lost): \(export.errors)")
        #expect(export.errors.contains("main is damaged: 2 parts of it cannot be read; the other documents, \(found.count), are exported"), "\(export.errors)")
    }

    @Test("writes all that can be read, from a folder and from a running agent, to a file, to standard output and over HTTP")
    func export() async throws {
        let folder = try await damaged()
        let configuration = folder.path("nightjar.yaml")
        func export(_ more: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), ["export", "main"] + more + ["--config", configuration], folder: folder.path)
        }
        let out = try await export()
        try check(out, out.output)
        let filed = try await export("all.jsonl")
        try check(filed, try folder.text("all.jsonl"))
        // What was exported can be imported elsewhere.
        let elsewhere = try await AgentProcess.start(Configuration.hub())
        let imported = try await elsewhere.command("import", "main", folder.path("all.jsonl"))
        #expect(imported.status == 0, "\(imported)")
        #expect(try await elsewhere.stop().status == 0)

        let agent = try await AgentProcess.start(Configuration.hub(), in: folder)
        let running = try await export("running.jsonl")
        try check(running, try folder.text("running.jsonl"))
        #expect(try folder.read("running.jsonl") == folder.read("all.jsonl"))
        // By HTTP the lines say so, and the answer has no end.
        let url = "http://127.0.0.1:\(try agent.port("admin"))/api/databases/main/export"
        let curl = try await Subprocess.run("/usr/bin/curl", ["-sS", "--noproxy", "*", url])
        #expect(curl.status != 0 && curl.output.contains("{\"_unreadable\":{") && curl.output.contains("{\"_end\":{\"unreadable\":2}}"), "\(curl.errors)")
        #expect(try ids(curl.output).filter { !$0.hasPrefix("none") }.count == ids(try folder.text("all.jsonl")).count)
        let health = try await agent.admin.get("/health")
        #expect(health.status == 503 && health.text.contains("damaged") && health.text.contains("garbled"), "\(health)")
        _ = try await agent.stop()
    }

    @Test("of an intact database succeeds, and prints nothing")
    func whole() async throws {
        let agent = try await AgentProcess.start(Configuration.hub())
        try await agent.load("doc", 700)
        let export = try await agent.command("export", "main", "--json")
        #expect(export.status == 0 && export.errors.contains("\"unreadable\":0") && export.output.split(separator: "\n").count == 700, "\(export.errors)")
        #expect(try await agent.stop().status == 0)
    }
}
