import Documents
import TestSupport
import Testing

@Suite("nightjar pin") struct PinCommandTests {
    @Test("shows what a server presents and how to pin it, with a warning, even if a client certificate is required; and refuses clear text")
    func pin() async throws {
        let certificates = try await Certificates()
        let hub = try await AgentProcess.start(
            Configuration.secureHub([
                ("edge", ""), ("plain", "disable_tls: true"), ("strict", "client_certificates: require, roots: [ \(certificates.path("root.pem")) ]"),
            ]))
        for name in ["edge", "strict"] {
            let pin = try await hub.pin(name)
            let outcome = try await NightjarExecutable.run("pin", try hub.target(name))
            #expect(outcome.status == 0 && outcome.output.hasSuffix("pinned_server_certificate: \(pin)\n"), "\(outcome)")
            #expect(outcome.output.contains("issuer   itself") && outcome.errors.contains("over another channel"), "\(outcome)")
            let json = try JSONValue(parsing: try await NightjarExecutable.run("pin", "127.0.0.1:\(try hub.port(name))", "--json").outputBytes)
            #expect(json["pin"]?.asString == pin && json["self_signed"] == true && json["expires_at"]?.asString?.hasSuffix("Z") == true, "\(json.text)")
            #expect(try await json["sha256"] == hub.listener(name)["tls"]?["sha256"])
        }
        // It is what a replicator takes.
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try hub.target("edge"), "pinned_server_certificate: \(try await hub.pin("edge"))")]))
        try await edge.connects("hub")
        let clear = try await NightjarExecutable.run("pin", try hub.target("plain", scheme: "ws"))
        #expect(clear.status != 0 && clear.errors.contains("use wss: or https:"), "\(clear)")
        let wrong = try await NightjarExecutable.run("pin", "127.0.0.1:\(try hub.port("plain"))")
        #expect(wrong.status != 0 && wrong.output.isEmpty, "\(wrong)")
    }
}
