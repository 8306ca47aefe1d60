import Documents
import TestSupport
import Testing

/// The key store of an agent is gone: its peers have pinned the key in it.
@Suite("The agent's own identity, lost")
struct LostIdentityTests {
    private static let file = "data/identities/anonymous.pem"
    private static let configuration = Configuration.secureHub([("edge", "")])

    private static func reported(_ agent: AgentProcess) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "tls_files_refused" }
    }

    @Test("under a running agent: the key stays in force and is put back, the log warns, and health reports it")
    func running() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let pin = try await agent.pin("edge")
        let first = try await Self.reported(agent)
        #expect(first == nil, "a first start loses nothing: \(first?.text ?? "")")
        let before = try folder.read(Self.file)
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try agent.target("edge"), "pinned_server_certificate: \(pin)")]))
        try await edge.connects("hub")

        folder.remove("data/identities")
        let line = try await agent.process.line(containing: "has been written again with the same key", in: .errors)
        #expect(line.contains(pin) && line.lowercased().contains("warn"), "\(line)")
        #expect(try folder.read(Self.file) == before)
        #expect(try await agent.pin("edge") == pin)
        let entry = try #require(try await Self.reported(agent))
        #expect(entry["text"]?.asString?.contains("its file was gone") == true && entry["gravity"] == "attention", "\(entry.text)")
        #expect(entry["remedy"]?.asString?.contains("from a backup") == true, "\(entry.text)")
        // A connection that begins now is one to the pinned key.
        let other = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try agent.target("edge"), "pinned_server_certificate: \(pin)")]))
        try await other.connects("hub")
        for process in [other, edge, agent] { try await process.stop() }

        let next = try await AgentProcess.start(Self.configuration, in: folder)
        #expect(try await next.pin("edge") == pin)
        let last = try await Self.reported(next)
        #expect(last == nil, "\(last?.text ?? "")")
        try await next.stop()
    }

    @Test("with something else in its place: the key stays in force, and is put back once that is gone")
    func obstructed() async throws {
        let folder = try TemporaryFolder()
        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let pin = try await agent.pin("edge")
        try folder.rename("data/identities", to: "away")
        try folder.write("data/identities", "a file")
        let reported = try await eventually("health reports it") { () async throws -> JSONValue? in try await Self.reported(agent) }
        #expect(reported["text"]?.asString?.contains("in use") == true, "\(reported.text)")
        #expect(try await agent.pin("edge") == pin)
        folder.remove("data/identities")
        try await eventually("the file is there again") { folder.exists(Self.file) }
        #expect(try await agent.pin("edge") == pin)
        try await agent.stop()
    }

    @Test("at a start: the new key is a warning with the pin of the old one, until that is restored")
    func start() async throws {
        let folder = try TemporaryFolder()
        let before = try await AgentProcess.start(Self.configuration, in: folder)
        let pin = try await before.pin("edge")
        try await before.stop()
        try folder.rename("data/identities", to: "backup")

        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let new = try await agent.pin("edge")
        #expect(new != pin)
        let line = try await agent.process.line(containing: "the agent made a new key", in: .errors)
        #expect(line.contains(pin) && line.contains(new) && line.lowercased().contains("warn"), "\(line)")
        let entry = try #require(try await Self.reported(agent))
        #expect(entry["text"]?.asString?.contains(pin) == true && entry["text"]?.asString?.contains(new) == true, "\(entry.text)")
        #expect(entry["remedy"]?.asString?.contains("restore DATA/identities from a backup") == true, "\(entry.text)")
        // The running agent takes the backup.
        try folder.write(Self.file, bytes: try folder.read("backup/anonymous.pem"))
        try await eventually("the old key is in force") { try await agent.pin("edge") == pin }
        let after = try await Self.reported(agent)
        #expect(after == nil, "\(after?.text ?? "")")
        try await agent.stop()
    }

    @Test("at a start with databases from before and no note of an identity, a new key is reported as well")
    func unknown() async throws {
        let folder = try TemporaryFolder()
        let before = try await AgentProcess.start(Self.configuration, in: folder)
        try await before.stop()
        folder.remove("data/identities")
        folder.remove("data/identity.noted")
        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let entry = try #require(try await Self.reported(agent))
        #expect(entry["text"]?.asString?.contains("the agent made a new key") == true, "\(entry.text)")
        try await agent.stop()
    }

    @Test("a listener that is the first one with TLS on data from before makes an identity, and nothing is lost")
    func firstListener() async throws {
        let folder = try TemporaryFolder()
        let plain = try await AgentProcess.start(Configuration.secureHub([("edge", "disable_tls: true")]), in: folder)
        try await plain.stop()
        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let entry = try await Self.reported(agent)
        #expect(entry == nil, "\(entry?.text ?? "")")
        try await agent.stop()
    }
}
