import Documents
import TestSupport
import Testing

/// Secrets in files that change while the agent runs.
@Suite("Secrets in files")
struct SecretFileTests {
    private static let door = """
        return { authenticate_password = function(name, password) return name == "ada" and password == "second-hunter" end }
        """

    @Test("a changed password file is read again, at once and without a reload; an unreadable one changes nothing",
        arguments: ["ws", "http"])
    func changes(_ scheme: String) async throws {
        let hubFolder = try TemporaryFolder()
        hubFolder.makeFolder("plugins")
        try hubFolder.write("plugins/door.lua", Self.door)
        let hub = try await AgentProcess.start(Configuration.hub(listener: "authenticator: door", plugins: true), in: hubFolder)
        let folder = try TemporaryFolder()
        try folder.write("hub.secret", "first-hunter\n")
        // By itself it would try again in two hours.
        let edge = try await AgentProcess.start(
            Configuration.edge(
                to: try hub.port("edge"),
                replicator: "authenticator: { username: ada, password: \"${file:hub.secret}\" }\n    blocked_wait_time: 7200\n    max_blocked_wait_time: 7200",
                scheme: scheme),
            in: folder)
        let refused = try await edge.refusal("hub")
        #expect(refused["public_code"]?.asInt64 == 10401, "\(refused.text)")
        try folder.write("hub.secret", "")
        try folder.write("hub.secret", "second-hunter\n")
        try await edge.connects("hub")
        try await edge.save("one", "{}")
        try await eventually("it flows") { try await hub.has("one") }
        #expect(edge.process.errors.contains("a file of its secrets changed"))
        #expect(!edge.process.errors.contains("hunter"))
    }
}
