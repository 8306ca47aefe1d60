import Documents
import TestSupport
import Testing

/// The clock of a machine was ahead while documents were edited, and was set right before the agent's next start.
@Suite("A clock that was ahead", .serialized)
struct ClockAheadTests {
    @Test("is reported by health, status, metrics and doctor until the time has come, and edits have the right time")
    func isTold() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.hub(database: "{ version_vectors: true }")
        let first = try await AgentProcess.start(configuration, in: folder)
        try await first.save("a", "{}")
        #expect(try await first.isWell())
        let before = try await version(of: "a", first)
        #expect(try await first.stop().status == 0)
        try Self.setAhead(folder, nanoseconds: 3_600_000_000_000)

        let agent = try await AgentProcess.start(configuration, in: folder)
        let (health, status) = (try await agent.admin.get("/health"), try await agent.status())
        #expect(try health.status == 200 && health.json["status"] == "attention", "\(health)")
        let found = try #require(entry(health), "\(health)")
        #expect(found["subject"] == "database main" && found["gravity"] == "attention" && found["since"]?.asString?.hasPrefix("20") == true)
        #expect(found["text"]?.asString?.contains(" minutes ahead of this machine's clock") == true, "\(found.text)")
        #expect(found["remedy"]?.asString?.contains("The next edit is given the right time") == true, "\(found.text)")
        #expect(status["attention"]?.asArray?.contains { $0["kind"] == "versions_ahead" } == true)
        #expect(try await agent.command("status").output.contains("needs attention: database main: documents that were edited here while the clock was ahead"))
        #expect(try await agent.metrics().contains("nightjar_attention{kind=\"versions_ahead\",gravity=\"attention\"} 1\n"))
        #expect(try await agent.command("doctor", "--offline", "--quick").output.contains("(versions_ahead, since 20"))

        try await agent.save("b", "{}")
        let edited = try await version(of: "b", agent)
        #expect(edited.source != before.source && edited.time > before.time && edited.time - before.time < 1_800_000_000_000, "\(before) \(edited)")
        let after = try #require(entry(try await agent.admin.get("/health")))
        #expect(after["remedy"]?.asString?.contains("Edits made since then have the right time") == true, "\(after.text)")
        #expect(try await agent.stop().status == 0)

        let doctor = try await Subprocess.run(
            try NightjarExecutable.path(), ["doctor", "--offline", "--json", "--config", "nightjar.yaml"], folder: folder.path)
        let told = try JSONValue(parsing: doctor.outputBytes)["findings"]?.asArray?.first { $0["mend"] == "nightjar explain versions_ahead" }
        #expect(told?["verdict"] == "warning" && told?["text"]?.asString?.contains("database main") == true, "\(doctor)")
        #expect(try await NightjarExecutable.run("explain", "versions_ahead").output.contains("max_clock_drift"))
    }

    private func entry(_ health: HTTPProbe.Answer) -> JSONValue? {
        (try? health.json["attention"])?.asArray?.first { $0["kind"] == "versions_ahead" }
    }

    private func version(of id: String, _ agent: AgentProcess) async throws -> VectorVersion {
        let outcome = try await agent.command("doc", "get", "main", id, "--cv")
        return try VectorVersion(try #require(try JSONValue(parsing: outcome.outputBytes)["_cv"]?.asString, "\(outcome)"))
    }

    /// As an agent leaves it that made its last version so much later.
    private static func setAhead(_ folder: TemporaryFolder, nanoseconds: UInt64) throws {
        let name = "data/main.nightjar/db.sqlite3"
        let (key, digits) = (Array("version_reserved".utf8), 16)
        var bytes = try folder.read(name)
        var found = 0
        for index in 0..<(bytes.count - key.count - digits) where bytes[index] == key[0] && bytes[index..<(index + key.count)].elementsEqual(key) {
            let place = (index + key.count)..<(index + key.count + digits)
            guard let time = UInt64(String(decoding: bytes[place], as: UTF8.self), radix: 16) else { continue }
            bytes.replaceSubrange(place, with: String(time + nanoseconds, radix: 16).utf8)
            found += 1
        }
        try #require(found > 0, "no time is reserved")
        try folder.write(name, bytes: bytes)
    }
}
