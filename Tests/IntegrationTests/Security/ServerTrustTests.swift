import Documents
import TestSupport
import Testing

/// Whom a replicator believes, seen in the status of a real one at listeners with all kinds of certificates.
@Suite("Server authentication of real agents")
struct ServerTrustTests {
    private struct Case {
        var name: String
        var listener: String
        var options: String
        var host = "127.0.0.1"
        /// Nil where the server must be accepted.
        var refusal: (code: Int64, words: [String])?
    }

    @Test("each rule accepts and refuses what it should, every time, and says what to do")
    func rules() async throws {
        let certificates = try await Certificates()
        let hub = try await AgentProcess.start(Configuration.secureHub([
            ("anonymous", ""), ("chain", "identity: \(certificates.identity("good", certificate: "good-chain.pem"))"),
            ("short", "identity: \(certificates.identity("good"))"), ("foreign", "identity: \(certificates.identity("foreign"))"),
            ("elsewhere", "identity: \(certificates.identity("elsewhere"))"), ("alone", "identity: \(certificates.identity("alone"))"),
            ("expired", "identity: \(certificates.identity("expired"))"),
        ]))
        // What an operator does to pin the hub's own certificate.
        let shown = try await hub.command("identity", "show", "anonymous", "--pem")
        let anonymous = try certificates.folder.write("anonymous.pem", shown.output)
        let pin = try await hub.pin("anonymous")
        let root = "roots: [ \(certificates.path("root.pem")) ]"
        func pinned(_ file: String) -> String { "pinned_server_certificate: \(certificates.path(file))" }
        let selfSigned = "accept_only_self_signed_server_certificate: true"
        let unsafe = "unsafe_skip_server_certificate_verification: true"
        let otherPin = "sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

        let cases = [
            Case(name: "pin-file", listener: "anonymous", options: "pinned_server_certificate: \(anonymous)"),
            Case(name: "pin-key", listener: "anonymous", options: "pinned_server_certificate: \(pin)"),
            Case(name: "pin-rotation", listener: "anonymous", options: "pinned_server_certificate: [ \(otherPin), \(pin) ]"),
            Case(name: "pin-wrong", listener: "anonymous", options: "pinned_server_certificate: \(otherPin)", refusal: (5008, ["is not the pinned one", "pin it too"])),
            Case(name: "pin-leaf", listener: "short", options: pinned("good.pem")),
            Case(name: "pin-middle", listener: "short", options: pinned("middle.pem")),
            Case(name: "pin-root", listener: "chain", options: pinned("root.pem")),
            Case(name: "pin-elsewhere", listener: "elsewhere", options: pinned("elsewhere.pem")),
            Case(name: "pin-stranger", listener: "chain", options: pinned("stranger.pem"), refusal: (5008, ["is not the pinned one"])),
            Case(name: "self-anonymous", listener: "anonymous", options: selfSigned),
            Case(name: "self-chain", listener: "chain", options: selfSigned, refusal: (5008, ["is not self-signed", "remove accept_only_self_signed"])),
            Case(name: "system", listener: "anonymous", options: "", refusal: (5011, ["self-signed", "pin it", "accept_only_self_signed_server_certificate"])),
            Case(name: "system-chain", listener: "chain", options: "", refusal: (5011, ["CN=good", "root", "pin it"])),
            Case(name: "roots", listener: "chain", options: root),
            Case(name: "roots-name", listener: "chain", options: root, host: "localhost"),
            Case(name: "roots-alone", listener: "alone", options: "roots: [ \(certificates.path("alone.pem")) ]"),
            Case(name: "roots-short", listener: "short", options: root, refusal: (5011, ["an intermediate certificate is missing", "has to send its intermediates"])),
            Case(name: "roots-foreign", listener: "foreign", options: root, refusal: (5011, ["CN=foreign", "its root is not trusted"])),
            Case(name: "roots-elsewhere", listener: "elsewhere", options: root, refusal: (5015, ["CN=elsewhere is not for 127.0.0.1", "connect to a host that the certificate names"])),
            Case(name: "roots-elsewhere-name", listener: "elsewhere", options: root, host: "localhost", refusal: (5015, ["is not for localhost"])),
            Case(name: "roots-expired", listener: "expired", options: root, refusal: (5007, ["CN=expired", "it has expired", "clock"])),
            Case(name: "unsafe", listener: "foreign", options: unsafe),
        ]
        let edge = try await AgentProcess.start(Configuration.secureEdge(try cases.map { item in
            (item.name, "wss://\(item.host):\(try hub.port(item.listener))/main", item.options)
        }))
        for item in cases {
            guard let refusal = item.refusal else {
                try await edge.connects(item.name)
                let status = try await edge.replicator(item.name)
                #expect(status["tls"]?["server_certificate"]?["sha256"]?.asString == (try await hub.listener(item.listener)["tls"]?["sha256"]?.asString), "\(status.text)")
                #expect(status["tls"]?["connection"]?.asString?.contains("TLSv1.3") == true, "\(status.text)")
                #expect(status["tls"]?["server_certificate"]?["expires_at"]?.asString?.hasSuffix("Z") == true)
                continue
            }
            let error = try await edge.refusal(item.name)
            #expect(error["domain"]?.asString == "tls" && error["public_code"]?.asInt64 == refusal.code, "\(item.name): \(error.text)")
            #expect(error["transient"]?.asBool == false, "\(item.name): \(error.text)")
            for words in refusal.words { #expect(error["message"]?.asString?.contains(words) == true, "\(item.name), \(words): \(error.text)") }
        }
        // What skips the check says so everywhere, and nothing else does.
        #expect(try await edge.replicator("unsafe")["tls"]?["unsafe"]?.asBool == true)
        #expect(try await edge.replicator("roots")["tls"]?["unsafe"]?.asBool == false)
        let status = try await edge.command("status").output
        #expect(status.contains("unsafe: WARNING: accepts any server certificate (unsafe_skip_server_certificate_verification)\n"), "\(status)")
        #expect(edge.process.errors.contains("replicator unsafe accepts ANY server certificate (unsafe_skip_server_certificate_verification)"))
        let metrics = try await edge.metrics()
        #expect(metrics.contains("nightjar_unsafe_skip_server_certificate_verification{replicator=\"unsafe\"} 1\n"), "\(metrics)")
        #expect(metrics.contains("nightjar_unsafe_skip_server_certificate_verification{replicator=\"roots\"} 0\n"))
        #expect(metrics.contains("nightjar_replicator_server_certificate_expires_seconds{replicator=\"roots\"}"), "\(metrics)")

        // An agent whose own certificate has expired continues, and says so.
        #expect(try await hub.listener("expired")["tls"]?["warning"]?.asString?.contains("expired at") == true)
        #expect(hub.process.errors.contains("expired.pem: the certificate CN=expired expired at"))

        // Documents travel.
        try await edge.save("travels", "{\"a\":1}")
        try await eventually("the document arrives") { try await hub.has("travels") }

        // Another opinion about the same servers, where it has one.
        for (listener, host, isGood) in [
            ("chain", "127.0.0.1", true), ("chain", "localhost", true), ("short", "127.0.0.1", false), ("foreign", "127.0.0.1", false),
            ("elsewhere", "localhost", false), ("anonymous", "127.0.0.1", false), ("expired", "127.0.0.1", false),
        ] {
            let url = "https://\(host):\(try hub.port(listener))/"
            let outcome = try await tool("curl", "-sS", "--noproxy", "*", "--cacert", certificates.path("root.pem"), url)
            #expect(outcome.status == (isGood ? 0 : 60), "\(listener): \(outcome)")
        }
        #expect(try await edge.stop().status == 0)
        #expect(try await hub.stop().status == 0)
    }
}
