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
        // The start tells it once. Nobody has asked yet what needs attention.
        _ = try await agent.process.line(containing: "expired at", in: .errors)
        let told = agent.process.errors.split(separator: "\n").filter { $0.contains("expired at") }
        #expect(told.count == 1 && told[0].contains("nightjar.yaml:"), "\(agent.process.errors)")
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

    @Test("a pin keeps working after its certificate has expired, which health and doctor tell in the same words; without a pin, the server is refused")
    func pinned() async throws {
        let certificates = try await Certificates()
        let hub = try await AgentProcess.start(Configuration.secureHub([("edge", "identity: \(certificates.identity("expired"))")]))
        let (target, file) = (try hub.target("edge"), certificates.path("expired.pem"))
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            // Its authority has expired too, and does not count beside a pin.
            ("file", target, "pinned_server_certificate: \(file)"), ("key", target, "pinned_server_certificate: \(try await hub.pin("edge")), roots: [ \(file) ]"),
            ("authority", target, "pinned_server_certificate: \(certificates.path("root.pem"))"),
        ]))
        for name in ["file", "key", "authority"] { try await edge.connects(name) }
        let health = try await edge.admin.get("/health")
        let list = try health.json["attention"]?.asArray ?? []
        #expect(health.status == 200 && list.map { $0["kind"]?.asString } == ["certificate_ending"] && list[0]["subject"] == "replicator file", "\(health)")
        let text = try #require(list.first?["text"]?.asString)
        #expect(text.hasPrefix("the pinned certificate CN=expired expired at ") && text.contains(": the pin keeps working"), "\(text)")
        #expect(try await edge.command("status").output.contains("needs attention: replicator file: \(text); "))
        let check = try await edge.command("check")
        #expect(check.status == 0 && !check.errors.contains("expired"), "\(check)")
        let doctor = try await edge.command("doctor", "--json")
        let found = try (JSONValue(parsing: doctor.output)["findings"]?.asArray ?? []).filter { $0["area"] == "certificate" }
        let verdicts = found.map { "\($0["verdict"]?.asString ?? "") \($0["text"]?.asString ?? "")" }
        #expect(verdicts.filter { !$0.hasPrefix("ok ") } == ["warning replicator file: \(text)"], "\(verdicts)")
        #expect(verdicts.filter { $0.hasPrefix("ok ") && $0.contains("the server's certificate CN=expired, until ") && $0.hasSuffix("which is not checked") }.count == 3, "\(verdicts)")
        #expect(found.first { $0["verdict"] == "warning" }?["mend"] == list.first?["remedy"], "\(found)")
        #expect(try await NightjarExecutable.run("explain", "certificate_ending").output.contains("its pin keeps working"))
        #expect(try await edge.stop().status == 0)

        let refused = try await AgentProcess.start(Configuration.secureEdge([("roots", target, "roots: [ \(certificates.path("root.pem")) ]")]))
        #expect(try await refused.refusal("roots")["public_code"]?.asInt64 == 5007)
        for agent in [refused, hub] { #expect(try await agent.stop().status == 0) }
    }
}
