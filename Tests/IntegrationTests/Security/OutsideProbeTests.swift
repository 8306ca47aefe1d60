import Documents
import TestSupport
import Testing

/// What `openssl` and `curl` make of a listener, and what each side says when only one of two speaks TLS.
@Suite("Probes from outside")
struct OutsideProbeTests {
    @Test("an exported certificate is enough for curl, old versions and weak ciphers are refused")
    func probes() async throws {
        let folder = try TemporaryFolder()
        let configuration = Configuration.secureHub([("edge", "identity: gateway"), ("anonymous", ""), ("strict", "min_tls_version: 1.3")])
        try folder.write("nightjar.yaml", configuration)
        let made = try await NightjarExecutable.run(
            "identity", "create", "gateway", "--dns", "localhost", "--ip", "127.0.0.1", "--config", folder.path("nightjar.yaml"), folder: folder.path)
        #expect(made.status == 0, "\(made)")
        let hub = try await AgentProcess.start(configuration, in: folder)
        let exported = try folder.write("gateway.pem", try await hub.command("identity", "show", "gateway", "--pem").output)
        let port = try hub.port("edge")
        for host in ["localhost", "127.0.0.1"] {
            let outcome = try await tool(
                "curl", "-sS", "--noproxy", "*", "--cacert", exported, "-o", "/dev/null", "-w", "%{http_code} %{ssl_verify_result}", "https://\(host):\(port)/main/_blipsync")
            #expect(outcome.status == 0 && outcome.output == "426 0", "\(outcome)")
        }
        let pin = try await hub.pin("edge").replacing("sha256/", with: "sha256//")
        #expect(try await tool("curl", "-sSk", "--noproxy", "*", "--pinnedpubkey", pin, "https://127.0.0.1:\(port)/").status == 0)
        #expect(try await tool("curl", "-sSk", "--noproxy", "*", "--pinnedpubkey", pin, "https://127.0.0.1:\(try hub.port("anonymous"))/").status == 90)

        func handshake(_ arguments: String...) async throws -> Subprocess.Outcome {
            try await Subprocess.run("/usr/bin/openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-verify_return_error", "-CAfile", exported] + arguments)
        }
        for arguments in [["-tls1_3"], ["-tls1_2"], ["-alpn", "h2,http/1.1"], ["-servername", "localhost"]] {
            let outcome = try await Subprocess.run(
                "/usr/bin/openssl", ["s_client", "-connect", "127.0.0.1:\(port)", "-verify_return_error", "-CAfile", exported] + arguments)
            #expect(outcome.status == 0 && outcome.output.contains("Verify return code: 0"), "\(arguments): \(outcome)")
        }
        #expect(try await handshake("-alpn", "h2,http/1.1").output.contains("ALPN protocol: http/1.1"))
        // The client's own floor is lowered: the refusal has to be the listener's, by an alert.
        for arguments in [
            ["-tls1"], ["-tls1_1"], ["-tls1_2", "-cipher", "AES128-SHA"], ["-tls1_2", "-cipher", "AES256-GCM-SHA384"], ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"],
            ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-SHA384"], ["-tls1_2", "-cipher", "aNULL"],
        ] {
            var arguments = arguments
            if let at = arguments.firstIndex(of: "-cipher") { arguments[at + 1] += ":@SECLEVEL=0" } else { arguments += ["-cipher", "ALL:@SECLEVEL=0"] }
            let outcome = try await Subprocess.run("/usr/bin/openssl", ["s_client", "-connect", "127.0.0.1:\(port)"] + arguments)
            #expect(outcome.status == 1 && outcome.errors.contains("alert"), "\(arguments): \(outcome)")
        }
        _ = try await hub.process.line(containing: "older versions are refused: update the peer", in: .errors)
        for (version, status) in [("-tls1_3", Int32(0)), ("-tls1_2", 1)] {
            let outcome = try await Subprocess.run("/usr/bin/openssl", ["s_client", "-connect", "127.0.0.1:\(try hub.port("strict"))", version])
            #expect(outcome.status == status, "\(version): \(outcome)")
        }
        // It does speak 1.2.
        let refused = try await hub.process.line(containing: "listener=strict remote=", in: .errors)
        #expect(refused.contains("the peer supports no version of TLS that is accepted here") && refused.contains("or only 1.3 if min_tls_version is 1.3"), "\(refused)")
        #expect(try await hub.isWell())
        #expect(try await hub.stop().status == 0)
    }

    @Test("both sides report that one speaks TLS and the other does not")
    func mismatches() async throws {
        let hub = try await AgentProcess.start(Configuration.secureHub([("secure", ""), ("plain", "disable_tls: true")]))
        #expect(hub.process.errors.contains("without TLS (disable_tls)"))
        let edge = try await AgentProcess.start(Configuration.secureEdge([
            ("plain-at-secure", try hub.target("secure", scheme: "ws"), ""), ("secure-at-plain", try hub.target("plain"), ""),
            ("pinned-at-plain", try hub.target("plain"), "accept_only_self_signed_server_certificate: true"),
        ]))
        try await edge.waits("11006", replicator: "plain-at-secure") { $0["error"]?["public_code"]?.asInt64 == 11006 }
        #expect(try await edge.replicator("plain-at-secure")["error"]?["message"]?.asString?.contains("the server speaks TLS: use wss:") == true)
        for name in ["secure-at-plain", "pinned-at-plain"] {
            let error = try await edge.refusal(name)
            #expect(error["domain"]?.asString == "tls" && error["public_code"]?.asInt64 == 5011 && error["transient"]?.asBool == false, "\(error.text)")
            #expect(error["message"]?.asString?.contains("speaks plain HTTP, not TLS; use ws:") == true, "\(error.text)")
        }
        _ = try await hub.process.line(containing: "a client spoke plain HTTP to this TLS port", in: .errors)
        _ = try await hub.process.line(containing: "a client spoke TLS to this port, which speaks plain HTTP", in: .errors)
        let plain = try await tool("curl", "-sS", "--noproxy", "*", "http://127.0.0.1:\(try hub.port("secure"))/main")
        #expect(plain.status == 0 && plain.output.contains("this port speaks TLS: use https: or wss:"), "\(plain)")
        #expect(try await tool("curl", "-sSk", "--noproxy", "*", "https://127.0.0.1:\(try hub.port("plain"))/main").status == 35)
        for agent in [edge, hub] { #expect(try await agent.stop().status == 0) }
    }
}
