import Documents
import Glibc
import TestSupport
import Testing

/// Certificates that their authority has revoked, between real agents.
@Suite("Revoked certificates")
struct RevocationTests {
    /// Has `root` revoke these certificates too, and gives its list.
    private func list(_ certificates: Certificates, revoking names: String...) async throws -> String {
        let script = """
            [ -f ca.cnf ] || {
              printf '[ca]\\ndefault_ca = d\\n[d]\\ndatabase = index\\ncrlnumber = number\\ndefault_md = sha256\\ndefault_crl_days = 30\\n' > ca.cnf
              : > index
              echo 01 > number
            }
            for name in \(names.joined(separator: " ")); do
              openssl ca -config ca.cnf -keyfile root.key -cert root.pem -revoke $name.pem
            done
            openssl ca -config ca.cnf -keyfile root.key -cert root.pem -gencrl -out list.pem
            """
        try certificates.folder.write("revoke", script)
        let outcome = try await Subprocess.run("/bin/sh", ["-e", "revoke"], folder: certificates.folder.path)
        guard outcome.status == 0 else { throw SupportError("revocation: \(outcome)") }
        return certificates.path("list.pem")
    }

    @Test("a listener admits nobody whose certificate is on the list, and disconnects peers that are added to it; a broken list changes nothing")
    func clients() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy(try await list(certificates), to: "crl.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "client_certificates: require, roots: [ \(certificates.path("root.pem")) ], crl: [ crl.pem ]")]), in: folder)
        let target = try hub.target("edge")
        func shows(_ name: String) -> String {
            "accept_only_self_signed_server_certificate: true, authenticator: { identity: \(certificates.identity(name)) }"
        }
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("plant", target, shows("plant-7")), ("kiosk", target, shows("kiosk-1"))]))
        try await edge.connects("plant")
        try await edge.connects("kiosk")
        try folder.copy(try await list(certificates, revoking: "plant-7"), to: "crl.pem")
        // Nobody reloads: the file is looked at.
        try await edge.waits("is put off, and then refused", replicator: "plant") {
            $0["error"]?["domain"]?.asString == "tls" && $0["error"]?["transient"]?.asBool == false
        }
        _ = try await hub.process.line(containing: "CN=plant-7 is refused: it is revoked", in: .errors)
        #expect(try await edge.replicator("kiosk")["activity"]?.asString == "idle")
        #expect(try await hub.listener("edge")["peers"]?.asArray?.map { $0["user"]?.asString } == ["kiosk-1"])

        try folder.write("crl.pem", "-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n")
        try await eventually("the broken list is told") {
            try await hub.admin.get("/health").json["attention"]?.asArray?.contains { entry in
                entry["kind"]?.asString == "tls_files_refused" && entry["text"]?.asString?.hasPrefix("crl: ") == true
            } == true
        }
        try await edge.post("/api/replicators/plant/start")
        try await edge.waits("is refused as before", replicator: "plant") { $0["error"]?["domain"]?.asString == "tls" }
        let check = try await hub.command("check")
        #expect(check.status == 78 && check.errors.contains("crl.pem") && check.errors.contains("crl: "), "\(check)")
    }

    @Test("a feed over HTTP ends at once when its client's certificate is withdrawn, by the list or with its authority; other feeds continue")
    func feeds() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy(try await list(certificates), to: "crl.pem")
        try folder.copy(certificates.path("root.pem"), to: "roots.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "couchdb: true, client_certificates: require, roots: [ roots.pem ], crl: [ crl.pem ]")]), in: folder)
        try await hub.put("main", "before", "{}")
        func feed(_ name: String) async throws -> Subprocess {
            let shown = ["--cert", certificates.path("\(name).pem"), "--key", certificates.path("\(name).key")]
            let target = "https://127.0.0.1:\(try hub.port("edge"))/main/_changes?feed=continuous&include_docs=true&heartbeat=3600000"
            let feed = try Subprocess("/usr/bin/curl", ["-sSk", "-N", "--http1.1", "--noproxy", "*"] + shown + [target])
            _ = try await feed.line(containing: "\"id\":\"before\"")
            return feed
        }
        let (plant, kiosk) = (try await feed("plant-7"), try await feed("kiosk-1"))
        try folder.copy(try await list(certificates, revoking: "plant-7"), to: "crl.pem")
        // Nobody reloads, and nothing happens on the feed.
        let listed = try await plant.wait()
        #expect(listed.status == 0 && listed.output.contains("\"last_seq\""), "\(listed)")
        try await hub.put("main", "after", "{}")
        _ = try await kiosk.line(containing: "\"id\":\"after\"")
        try folder.copy(certificates.path("stranger.pem"), to: "roots.pem")
        #expect(try await kiosk.wait().status == 0)
        #expect(try await hub.stop().status == 0)
    }

    @Test("a replicator refuses a server whose authority is on the list; authorities without a list are not checked")
    func servers() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        // `good` is signed by `middle`, which has no list, and that by `root`.
        try folder.copy(try await list(certificates), to: "crl.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "identity: \(certificates.identity("good", certificate: "good-chain.pem"))")]))
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try hub.target("edge", host: "localhost"), "roots: [ \(certificates.path("root.pem")) ], crl: [ crl.pem ]")]),
            in: folder)
        try await edge.connects("hub")
        try folder.copy(try await list(certificates, revoking: "middle"), to: "crl.pem")
        _ = try await edge.process.line(containing: "the next connection uses the TLS files as they are now", in: .errors)
        try await edge.post("/api/replicators/hub/stop")
        try await edge.waits("stopped") { $0["activity"]?.asString == "stopped" }
        try await edge.post("/api/replicators/hub/start")
        let error = try await edge.refusal("hub")
        #expect(error["public_code"]?.asInt64 == 5014 && error["message"]?.asString?.contains("it is revoked") == true, "\(error.text)")
    }

    @Test("a broken list keeps neither a renewed certificate nor withdrawn authorities from coming into force")
    func brokenList() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        func install(_ name: String, root: String) throws {
            for suffix in ["key", "pem"] { try folder.copy(certificates.path("\(name).\(suffix)"), to: "hub.\(suffix)") }
            chmod(folder.path("hub.key"), 0o600)
            try folder.copy(certificates.path("\(root).pem"), to: "clients.pem")
        }
        try install("alone", root: "root")
        try folder.copy(try await list(certificates), to: "crl.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([
                ("edge", "identity: { certificate: hub.pem, key: hub.key }, client_certificates: require, roots: [ clients.pem ], crl: [ crl.pem ]")
            ]), in: folder)
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([
                ("plant", try hub.target("edge"),
                 "accept_only_self_signed_server_certificate: true, authenticator: { identity: \(certificates.identity("plant-7")) }")
            ]))
        try await edge.connects("plant")
        let before = try await hub.pin("edge")
        // The list first, so that no look finds the others without it.
        try folder.write("crl.pem", "-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n")
        try install("foreign", root: "stranger")
        let reload = try await hub.command("reload")
        #expect(reload.status == 78 && reload.errors.contains("crl.pem"), "\(reload)")
        try await eventually("whoever the new authorities do not vouch for is put off") {
            try await hub.listener("edge")["connections"]?.asInt64 == 0
        }
        let handshake = try await tool("openssl", "s_client", "-connect", "127.0.0.1:\(try hub.port("edge"))")
        let subject = try await tool("openssl", "x509", "-noout", "-subject", input: .text(handshake.output))
        let expected = try await tool("openssl", "x509", "-noout", "-subject", "-in", certificates.path("foreign.pem"))
        #expect(subject.output == expected.output && !subject.output.isEmpty, "\(subject)")
        #expect(try await hub.pin("edge") != before)
        #expect(hub.process.errors.contains("TLS goes on as before: crl: "), "\(hub.process.errors)")
    }

    @Test("a broken list does not keep a replicator from trusting other authorities")
    func brokenListOfReplicator() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy(certificates.path("stranger.pem"), to: "roots.pem")
        try folder.copy(try await list(certificates), to: "crl.pem")
        let hub = try await AgentProcess.start(
            Configuration.secureHub([("edge", "identity: \(certificates.identity("good", certificate: "good-chain.pem"))")]))
        let edge = try await AgentProcess.start(
            Configuration.secureEdge([("hub", try hub.target("edge", host: "localhost"), "roots: [ roots.pem ], crl: [ crl.pem ]")], wait: 1), in: folder)
        #expect(try await edge.refusal("hub")["domain"]?.asString == "tls")
        try folder.write("crl.pem", "-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n")
        try folder.copy(certificates.path("root.pem"), to: "roots.pem")
        #expect(try await edge.command("reload").status == 78)
        try await edge.post("/api/replicators/hub/start")
        try await edge.connects("hub")
        #expect(edge.process.errors.contains("TLS goes on as before: crl: "), "\(edge.process.errors)")
    }

    @Test("a list without any authority has no effect, and check says so")
    func useless() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "nightjar.yaml",
            Configuration.secureEdge([("hub", "wss://hub.example/main", "accept_only_self_signed_server_certificate: true, crl: [ crl.pem ]")])
                + "listeners:\n  - { name: edge, databases: [ main ], interface: 127.0.0.1, port: 0, crl: [ crl.pem ] }\n")
        let outcome = try await Subprocess.run(
            try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        #expect(outcome.status == 78, "\(outcome)")
        #expect(outcome.errors.contains("has no effect with \"accept_only_self_signed_server_certificate\""), "\(outcome)")
        #expect(outcome.errors.contains("\"crl\" has no effect without \"roots\""), "\(outcome)")
    }

    @Test("a list of an authority that is not among the roots is reported by check, which finds nothing else wrong")
    func others() async throws {
        let certificates = try await Certificates()
        let folder = try TemporaryFolder()
        try folder.copy(try await list(certificates), to: "crl.pem")
        for (root, isTold) in [("root.pem", false), ("good.pem", true)] {
            try folder.write(
                "nightjar.yaml",
                Configuration.secureHub([("edge", "client_certificates: require, roots: [ \(certificates.path(root)) ], crl: [ crl.pem ]")]))
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")], folder: folder.path)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.errors.contains("warning:") == isTold && outcome.errors.contains("not among \"roots\"") == isTold, "\(root): \(outcome)")
        }
    }
}
