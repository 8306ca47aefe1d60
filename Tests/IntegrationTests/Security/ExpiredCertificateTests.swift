import Documents
import TestSupport
import Testing

/// A certificate that is not valid today is a warning to every command.
@Suite("Certificates that have expired")
struct ExpiredCertificateTests {
    @Test("check warns with status 0, run starts, and a reload applies what was changed")
    func agrees() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        let text = Configuration.secureHub([("edge", "identity: \(certificates.identity("expired"))")])
        try folder.write("nightjar.yaml", text)
        let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
        #expect(check.status == 0 && check.output.contains("configuration is valid"), "\(check)")
        let warnings = check.errors.split(separator: "\n")
        #expect(warnings.count == 1 && warnings[0].hasPrefix("warning: ") && warnings[0].contains("expired at"), "\(check)")
        #expect(warnings[0].contains("nightjar.yaml:"), "\(check)")

        let agent = try await AgentProcess.start(text, in: folder)
        let reload = try await agent.reload(text.replacing("{ main: {} }", with: "{ main: {}, other: {} }"))
        #expect(reload.status == 0 && reload.output.contains("database other opened"), "\(reload)")
        let health = try await agent.admin.get("/health").json["attention"]?.asArray?.compactMap { $0["kind"]?.asString }
        #expect(health == ["certificate_expired"], "\(health ?? [])")

        // What keeps TLS from working is refused by all three, as before.
        let broken = try await agent.reload(text.replacing("expired.key", with: "good.key"))
        #expect(broken.status == 78 && broken.errors.contains("is not that of the certificate"), "\(broken)")
        #expect(try await agent.command("check").status == 78)
        #expect(try await agent.stop().status == 0)
        #expect(try await NightjarExecutable.run("run", "--config", folder.path("nightjar.yaml")).status == 78)
    }
}
