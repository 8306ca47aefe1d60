import Documents
import Glibc
import TestSupport
import Testing

/// Certificates, keys and authorities that change while the agent runs.
@Suite("TLS files that change under a running agent")
struct IdentityReloadTests {
    /// The SHA-256 fingerprint of the certificate that a listener shows, lower case without colons.
    private func shown(_ agent: AgentProcess, _ listener: String) async throws -> String {
        let address = "127.0.0.1:\(try agent.port(listener))"
        let handshake = try await tool("openssl", "s_client", "-connect", address)
        let outcome = try await tool("openssl", "x509", "-noout", "-fingerprint", "-sha256", input: .text(handshake.output))
        return outcome.output.split(separator: "=").last.map { $0.lowercased().filter { $0 != ":" && $0 != "\n" } } ?? "\(outcome)"
    }

    @Test("new connections get a replaced identity, those that are there go on, broken files change nothing")
    func identities() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        func install(_ name: String) throws {
            try folder.copy(certificates.path("\(name).key"), to: "hub.key")
            chmod(folder.path("hub.key"), 0o600)
            try folder.copy(certificates.path("\(name).pem"), to: "hub.pem")
        }
        try install("alone")
        let configuration = Configuration.secureHub([("files", "identity: { certificate: hub.pem, key: hub.key }"), ("store", "identity: gateway")])
        try folder.write("nightjar.yaml", configuration)
        func create(_ more: String...) async throws -> String {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(),
                ["identity", "create", "gateway", "--ip", "127.0.0.1", "--json", "--config", folder.path("nightjar.yaml")] + more, folder: folder.path)
            return try JSONValue(parsing: Array(outcome.output.utf8))["sha256"]?.asString ?? "\(outcome)"
        }
        let firstStored = try await create("--validity", "20")
        let hub = try await AgentProcess.start(configuration, in: folder)
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("files", try hub.target("files"), "pinned_server_certificate: \(try await hub.pin("files"))"),
            ("store", try hub.target("store"), "pinned_server_certificate: \(try await hub.pin("store"))"),
        ]))
        for name in ["files", "store"] { try await edge.connects(name) }
        let first = try await shown(hub, "files")
        #expect(try await hub.listener("files")["tls"]?["sha256"]?.asString == first)
        #expect(try await shown(hub, "store") == firstStored)
        let warning = try await hub.listener("store")["tls"]?["warning"]?.asString
        #expect(warning?.contains("the identity gateway expires in ") == true, "\(String(describing: warning))")
        _ = try await hub.process.line(containing: "the identity gateway expires in ", in: .errors)
        #expect(try await hub.command("status").output.contains("store: WARNING: the identity gateway expires in "))

        // Nobody tells the agent: it notices by itself.
        try install("good")
        let renewed = try TemporaryFolder()
        let pem = try await Subprocess.run(
            try NightjarExecutable.path(), ["identity", "show", "gateway", "--pem", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        try renewed.write("hub.pem", pem.output)
        let secondStored = try await create("--replace")
        for name in ["files", "store"] {
            let before = name == "files" ? first : firstStored
            try await eventually("\(name) has another identity") { try await hub.listener(name)["tls"]?["sha256"]?.asString != before }
        }
        let second = try await shown(hub, "files")
        #expect(second != first)
        #expect(try await hub.listener("files")["tls"]?["sha256"]?.asString == second)
        #expect(try await shown(hub, "store") == secondStored)
        #expect(try await hub.listener("store")["tls"]?["warning"]?.isNull == true)

        // A certificate that is pinned as a file stands for its key, which the new one has.
        let late = try await AgentProcess.start(
            Configuration.secureEdge([("store", try hub.target("store"), "pinned_server_certificate: \(renewed.path("hub.pem"))")]), in: renewed)
        try await late.connects("store")
        // Both the pinned certificate, and the one of a connection from before the renewal, end in 20 days; the pinned key holds.
        for agent in [late, edge] {
            let ending = try await agent.admin.get("/health").json["attention"]?.asArray?.filter { $0["kind"] == "certificate_ending" }
            #expect(ending?.isEmpty == true, "\(ending ?? [])")
        }
        #expect(try await late.stop().status == 0)

        // The connections from before.
        try await edge.save("after", "{}")
        try await edge.isSettled(replicator: "files")
        #expect(try await hub.has("after"))
        for name in ["files", "store"] {
            #expect(try await hub.listener(name)["connections"]?.asInt64 == 1)
            let status = try await edge.replicator(name)
            #expect(status["tls"]?["server_certificate"]?["sha256"]?.asString == (name == "files" ? first : firstStored), "\(status.text)")
        }

        // Broken files: said in the answer to the operator, in the log and in status.
        for (contents, words) in [
            ("garbage", "no PEM text"), (try certificates.folder.text("foreign.pem"), "is not that of the certificate CN=foreign"),
        ] {
            try folder.write("hub.pem", contents)
            let reload = try await hub.command("reload")
            #expect(reload.status == 78 && reload.errors.contains(words), "\(reload)")
            let status = try await hub.listener("files")["tls"]
            #expect(status?["sha256"]?.asString == second)
            #expect(status?["warning"]?.asString?.contains("the previous identity is in use") == true, "\(status?.text ?? "")")
            #expect(try await shown(hub, "files") == second)
            let said = hub.process.errors.split(separator: "\n").contains {
                $0.contains("TLS goes on as before") && $0.contains(words) && $0.contains("listener=files")
            }
            #expect(said, "\(hub.process.errors)")
        }
        try install("good")
        chmod(folder.path("hub.key"), 0o644)
        let loose = try await hub.command("reload")
        #expect(loose.status == 78 && loose.errors.contains("chmod 600"), "\(loose)")
        chmod(folder.path("hub.key"), 0o600)
        #expect(try await hub.command("reload").status == 0)
        #expect(try await hub.listener("files")["tls"]?["warning"]?.isNull == true)
        #expect(try await hub.listener("files")["connections"]?.asInt64 == 1)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }

    @Test("replaced authorities apply from the next connection on, and there are no sessions to resume")
    func authorities() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy(certificates.path("root.pem"), to: "clients.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "client_certificates: require, roots: [ clients.pem ]")]), in: folder)
        let address = "127.0.0.1:\(try hub.port("edge"))"
        /// Whether a client with that certificate gets an HTTP answer.
        func isServed(_ name: String, _ more: String...) async throws -> Bool {
            let process = try Subprocess(
                "/usr/bin/openssl",
                ["s_client", "-connect", address, "-cert", certificates.path("\(name).pem"), "-key", certificates.path("\(name).key"), "-ign_eof"] + more,
                input: .text("GET / HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n"))
            return try await process.wait().output.contains("HTTP/1.1 ")
        }
        #expect(try await isServed("plant-7"))
        for version in ["-tls1_2", "-tls1_3"] {
            #expect(try await isServed("plant-7", version, "-sess_out", certificates.path("session.pem")))
            #expect(!certificates.folder.exists("session.pem"), "\(version)")
        }
        #expect(try await !isServed("intruder"))
        try folder.copy(certificates.path("stranger.pem"), to: "clients.pem")
        #expect(try await hub.command("reload").status == 0)
        #expect(try await isServed("intruder"))
        #expect(try await !isServed("plant-7"))
        #expect(try await !isServed("plant-7", "-tls1_2"))
        #expect(try await hub.stop().status == 0)
    }

    @Test("a replicator whose pin and identity were replaced connects with them by itself, although it would wait for two hours")
    func replicator() async throws {
        let certificates = try await Certificates()
        let hub = try await AgentProcess.start(Configuration.secureHub([
            ("edge", "identity: \(certificates.identity("alone")), client_certificates: require, roots: [ \(certificates.path("root.pem")) ]")
        ]))
        let folder = try TemporaryFolder()
        try folder.copy(certificates.path("foreign.pem"), to: "pin.pem")
        for suffix in ["pem", "key"] { try folder.copy(certificates.path("kiosk-1.\(suffix)"), to: "own.\(suffix)") }
        chmod(folder.path("own.key"), 0o600)
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try hub.target("edge"), "pinned_server_certificate: pin.pem, authenticator: { identity: { certificate: own.pem, key: own.key } }, blocked_wait_time: 7200, max_blocked_wait_time: 7200")]),
            in: folder)
        #expect(try await edge.refusal("hub")["public_code"]?.asInt64 == 5008)
        // Nobody tells the agent. The pin comes last: with it the first connection is let in.
        for suffix in ["key", "pem"] { try folder.copy(certificates.path("plant-7.\(suffix)"), to: "own.\(suffix)") }
        try folder.copy(certificates.path("alone.pem"), to: "pin.pem")
        try await edge.connects("hub")
        #expect(try await hub.listener("edge")["peers"]?.asArray?.first?["user"]?.asString == "plant-7")
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}
