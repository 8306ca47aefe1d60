import Documents
import TestSupport
import Testing

/// The file of the identity that an agent makes for itself is damaged: its peers have pinned the key in it.
@Suite("The agent's own identity, damaged")
struct DamagedIdentityTests {
    private static let file = "data/identities/anonymous.pem"
    private static let configuration = Configuration.secureHub([("edge", "")])

    private static func refused(_ agent: AgentProcess) async throws -> JSONValue? {
        try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"]?.asString == "tls_files_refused" }
    }

    @Test("with an intact key in it the pin holds, and the log says that the certificate is a new one")
    func certificate() async throws {
        let folder = try TemporaryFolder()
        let before = try await AgentProcess.start(Self.configuration, in: folder)
        let pin = try await before.pin("edge")
        try await before.stop()
        var bytes = try folder.read(Self.file)
        bytes[200] = UInt8(ascii: "!")
        try folder.write(Self.file, bytes: bytes)

        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        #expect(try await agent.pin("edge") == pin)
        let line = try await agent.process.line(containing: "the agent's own certificate is replaced", in: .errors)
        #expect(line.contains("its key is kept") && line.contains(pin), "\(line)")
        #expect(try await Self.refused(agent) == nil)
        try await agent.stop()
    }

    @Test("without a key in it the file is kept, the log warns with the new pin, and health reports it until the damaged file is removed")
    func key() async throws {
        let folder = try TemporaryFolder()
        let before = try await AgentProcess.start(Self.configuration, in: folder)
        let pin = try await before.pin("edge")
        try await before.stop()
        let whole = try folder.read(Self.file)
        let half = Array(whole.prefix(whole.count / 2))
        try folder.write(Self.file, bytes: half)

        let agent = try await AgentProcess.start(Self.configuration, in: folder)
        let new = try await agent.pin("edge")
        #expect(new != pin)
        let line = try await agent.process.line(containing: "the agent's own identity is lost", in: .errors)
        #expect(line.contains("anonymous.pem.damaged") && line.contains(new) && line.lowercased().contains("warn"), "\(line)")
        #expect(try folder.read("\(Self.file).damaged") == half)
        let entry = try #require(try await Self.refused(agent))
        #expect(entry["text"]?.asString?.contains(new) == true && entry["remedy"]?.asString?.contains("from a backup") == true, "\(entry.text)")
        #expect(entry["gravity"] == "attention", "\(entry.text)")

        // A running agent takes the backup, and loses its key by no damage.
        try folder.write(Self.file, bytes: whole)
        try await eventually("the key of the backup is in force") { try await agent.pin("edge") == pin }
        folder.remove("\(Self.file).damaged")
        #expect(try await Self.refused(agent) == nil)
        try folder.write(Self.file, bytes: half)
        let kept = try await agent.process.line(containing: "its key is kept", in: .errors)
        #expect(kept.contains(pin), "\(kept)")
        #expect(try await agent.pin("edge") == pin)
        try await agent.stop()
    }
}
