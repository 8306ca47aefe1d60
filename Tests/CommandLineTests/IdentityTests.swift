import Documents
import Glibc
import TestSupport
import Testing

/// `nightjar identity`, against the `openssl` tool.
@Suite struct IdentityTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func nightjar(_ arguments: String..., environment: [String: String] = [:], input: Subprocess.Input = .none) async throws -> Subprocess.Outcome {
        try await Subprocess.run(
            try NightjarExecutable.path(), ["identity"] + arguments + ["--data", "data"], environment: environment, folder: folder.path, input: input)
    }

    @discardableResult
    private func openssl(_ arguments: String...) async throws -> String {
        let outcome = try await Subprocess.run("/usr/bin/openssl", arguments, folder: folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        return outcome.output
    }

    private func mode(_ name: String) -> mode_t {
        var facts = stat()
        return stat(folder.path(name), &facts) == 0 ? facts.st_mode & 0o777 : 0
    }

    @Test func createListShowRemove() async throws {
        let empty = try await nightjar("list")
        #expect(empty.status == 0 && empty.output == "no identities\n")
        #expect(try await nightjar("list", "--json").json.asArray?.isEmpty == true)

        let made = try await nightjar(
            "create", "gateway", "--dns", "gateway.example", "--dns", "*.plant.example", "--ip", "10.0.0.7", "--validity", "20", "--key", "p384", "--json")
        #expect(made.status == 0, "\(made)")
        let json = try made.json
        #expect(json["label"]?.asString == "gateway" && json["subject"]?.asString == "CN=gateway.example")
        #expect(json["names"]?["dns"]?.asArray?.compactMap(\.asString) == ["gateway.example", "*.plant.example"])
        #expect(json["key"]?.asString == "EC secp384r1" && json["self_signed"]?.asBool == true)
        #expect(json["warning"]?.asString?.contains("expires in") == true)
        #expect(mode("data/identities") == 0o700 && mode("data/identities/gateway.pem") == 0o600 && mode("data") == 0o700)
        let fingerprint = try await openssl("x509", "-in", "data/identities/gateway.pem", "-noout", "-fingerprint", "-sha256")
        #expect(fingerprint.lowercased().replacing(":", with: "").contains(json["sha256"]?.asString ?? "?"))
        #expect(try await openssl("verify", "-CAfile", "data/identities/gateway.pem", "data/identities/gateway.pem").contains("OK"))

        let list = try await nightjar("list")
        #expect(list.lines.count == 2 && list.lines[1].contains("gateway") && list.lines[1].contains("EC secp384r1"), "\(list)")
        let show = try await nightjar("show", "gateway")
        #expect(show.output.contains("10.0.0.7") && show.output.contains("pin      sha256/") && show.output.contains("warning"), "\(show)")
        let pem = try await nightjar("show", "gateway", "--pem")
        #expect(pem.output.hasPrefix("-----BEGIN CERTIFICATE-----") && !pem.output.contains("PRIVATE"))

        let again = try await nightjar("create", "gateway")
        #expect(again.status == 1 && again.errors.contains("--replace"), "\(again)")
        let replaced = try await nightjar("create", "gateway", "--replace", "--json")
        #expect(try replaced.json["sha256"] != json["sha256"])
        let configuration = try folder.write("names.yaml", """
            data: data
            databases: { main: {} }
            listeners: [ { name: edge, databases: [ main ], interface: 127.0.0.1, port: 0, identity: gateway, authenticator: none } ]

            """)
        let used = try await Subprocess.run(
            try NightjarExecutable.path(), ["identity", "rm", "gateway", "--config", configuration], folder: folder.path)
        #expect(used.status == 1 && used.errors.contains("listener edge") && folder.exists("data/identities/gateway.pem"), "\(used)")
        // The one that the agent made is that of each listener which names none.
        let own = try folder.write("own.yaml", """
            data: data
            databases: { main: {} }
            listeners: [ { name: field, databases: [ main ], interface: 127.0.0.1, port: 0, authenticator: none } ]

            """)
        let ownRemoved = try await Subprocess.run(try NightjarExecutable.path(), ["identity", "rm", "anonymous", "--config", own], folder: folder.path)
        #expect(ownRemoved.status == 1 && ownRemoved.errors.contains("listener field") && ownRemoved.errors.contains("pinned"), "\(ownRemoved)")
        let removed = try await nightjar("rm", "gateway")
        #expect(removed.status == 0 && !folder.exists("data/identities/gateway.pem"))
        for arguments in [["rm", "gateway"], ["show", "gateway"], ["export", "gateway", "--no-passphrase"]] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["identity"] + arguments + ["--data", "data"], folder: folder.path)
            #expect(outcome.status == 1 && outcome.errors.contains("there is no identity \"gateway\""), "\(outcome)")
            guard arguments[0] != "rm" else { continue }
            #expect(outcome.errors.contains("nightjar identity create gateway"), "\(outcome)")
        }
    }

    @Test("a list with an identity that has expired is status 1, and says what to do; one that ends soon is named with status 0")
    func expired() async throws {
        #expect(try await nightjar("create", "soon", "--days", "5").status == 0)
        let soon = try await nightjar("list")
        #expect(soon.status == 0 && soon.errors.contains("identity soon expires in") && soon.errors.contains("identity create soon --replace"), "\(soon)")
        try await openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "old.key")
        try await openssl("req", "-new", "-key", "old.key", "-subj", "/CN=old", "-out", "old.csr")
        try await openssl("x509", "-req", "-in", "old.csr", "-signkey", "old.key", "-days", "-1", "-out", "old.pem")
        #expect(try await nightjar("import", "old", "old.pem", "--key", "old.key").status == 0)
        let list = try await nightjar("list")
        #expect(list.status == 1 && list.errors.contains("identity old expired at") && list.errors.contains("identity create old --replace"), "\(list)")
        #expect(list.lines.count == 3, "\(list)")
        #expect(try await nightjar("list", "--json").status == 1)
    }

    @Test("a certificate that replaces another has its names, subject and kind of key, and the command says so")
    func renewedNames() async throws {
        let made = try await nightjar("create", "gateway", "--dns", "gateway.example", "--ip", "10.0.0.7", "--common-name", "plant 7", "--key", "p384", "--json").json
        let renewed = try await nightjar("create", "gateway", "--replace", "--json")
        let json = try renewed.json
        #expect(json["names"] == made["names"] && json["subject"] == made["subject"] && json["pin"] == made["pin"], "\(renewed)")
        #expect(json["sha256"] != made["sha256"])
        #expect(renewed.errors.contains("names of the replaced certificate are kept: gateway.example, 10.0.0.7; --dns and --ip give others"), "\(renewed)")

        let others = try await nightjar("create", "gateway", "--replace", "--dns", "b.example", "--json")
        let other = try others.json
        #expect(other["names"]?["dns"]?.asArray == ["b.example"] && other["names"]?["ip"]?.asArray?.isEmpty == true, "\(others)")
        #expect(other["subject"] == "CN=b.example" && other["pin"] == made["pin"] && others.errors.isEmpty, "\(others)")

        // A name that no certificate made here has is told, and so are names that nobody can read.
        try await openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k.pem", "-out", "c.pem", "-subj", "/CN=imported", "-days", "40", "-addext",
            "subjectAltName=DNS:c.example,email:a@c.example")
        #expect(try await nightjar("import", "c", "c.pem", "--key", "k.pem").status == 0)
        let imported = try await nightjar("create", "c", "--replace")
        #expect(imported.status == 0 && imported.output.contains("RSA 2048") && imported.errors.contains("kept: c.example; not a@c.example"), "\(imported)")
        try folder.write("data/identities/c.pem", "nothing\n")
        chmod(folder.path("data/identities/c.pem"), 0o600)
        let unread = try await nightjar("create", "c", "--replace")
        #expect(unread.status == 0 && unread.errors.contains("could not be read"), "\(unread)")
        // Where none was there is none to keep.
        let first = try await nightjar("create", "first", "--replace")
        #expect(first.status == 0 && first.errors.isEmpty, "\(first)")
    }

    @Test("if the agent's own identity has not been made yet, it is said that the agent makes it")
    func anonymousIsMadeByTheAgent() async throws {
        let outcome = try await nightjar("show", "anonymous")
        #expect(outcome.status == 1 && outcome.errors.contains("the agent makes it when it starts"), "\(outcome)")
    }

    @Test func whatMakesNoSenseIsRefused() async throws {
        for (arguments, status, words) in [
            (["create", "../x"], 1 as Int32, "not a valid identity label"), (["create", "anonymous"], 1, "the agent makes for itself"),
            (["create", "a", "--validity", "0"], 1, "from 1 to 36525"), (["create", "a", "--validity", "x"], 64, "--validity"),
            (["create", "a", "--dns", "a b"], 1, "not a host name"), (["create", "a", "--ip", "1.2.3"], 1, "not an IP address"),
            (["create", "a", "--key", "rsa1024"], 64, "rsa2048"), (["create"], 64, "label"),
            (["import", "a", "/nowhere/x.p12"], 1, "/nowhere/x.p12: there is no such file"),
            (["export", "a", "a.p12", "--no-passphrase"], 64, "always encrypted"),
            (["export", "a", "--passphrase-env", "A", "--passphrase-file", "b"], 64, "not both"),
        ] {
            let outcome = try await Subprocess.run(
                try NightjarExecutable.path(), ["identity"] + arguments + ["--data", "data"], folder: folder.path)
            #expect(outcome.status == status && outcome.errors.contains(words), "\(arguments): \(outcome)")
        }
        #expect(!folder.exists("data/identities/a.pem"))
    }

    @Test func importAndExportWithOpenSSL() async throws {
        try await openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "k.pem", "-out", "c.pem", "-subj", "/CN=imported", "-days", "40")
        try await openssl("pkcs12", "-export", "-in", "c.pem", "-inkey", "k.pem", "-passout", "pass:geheim", "-out", "c.p12")
        try await openssl("pkey", "-in", "k.pem", "-aes256", "-passout", "pass:geheim", "-out", "e.pem")
        try folder.write("secret.txt", "geheim\nsecond line\n")
        let expected = try await openssl("x509", "-in", "c.pem", "-noout", "-fingerprint", "-sha256")
            .lowercased().replacing(":", with: "").split(separator: "=").last.map { $0.split(separator: "\n")[0] }
        for (label, outcome) in [
            ("pair", try await nightjar("import", "pair", "c.pem", "--key", "k.pem", "--json")),
            ("locked", try await nightjar("import", "locked", "c.pem", "--key", "e.pem", "--passphrase-env", "SECRET", "--json", environment: ["SECRET": "geheim"])),
            ("p12", try await nightjar("import", "p12", "c.p12", "--passphrase-file", "secret.txt", "--json")),
            ("piped", try await nightjar("import", "piped", "c.p12", "--passphrase-file", "-", "--json", input: .text("geheim\n"))),
        ] {
            #expect(outcome.status == 0, "\(label): \(outcome)")
            #expect(try outcome.json["sha256"]?.asString == expected.map(String.init))
            #expect(mode("data/identities/\(label).pem") == 0o600)
        }
        let without = try await nightjar("import", "x", "c.p12")
        #expect(without.status == 1 && without.errors.contains("--passphrase-file or --passphrase-env"), "\(without)")
        let wrong = try await nightjar("import", "x", "c.p12", "--passphrase-env", "SECRET", environment: ["SECRET": "hunter2"])
        #expect(wrong.status == 1 && wrong.errors.contains("not that of the PKCS#12 file") && !wrong.errors.contains("hunter2"), "\(wrong)")
        try await openssl("genpkey", "-algorithm", "ED25519", "-out", "other.pem")
        let foreign = try await nightjar("import", "x", "c.pem", "--key", "other.pem")
        #expect(foreign.status == 1 && foreign.errors.contains("is not that of the certificate CN=imported"), "\(foreign)")

        // And out again.
        let p12 = try await nightjar("export", "p12", "out.p12", "--passphrase-env", "SECRET", environment: ["SECRET": "neu"])
        #expect(p12.status == 0 && mode("out.p12") == 0o600, "\(p12)")
        try await openssl("pkcs12", "-in", "out.p12", "-passin", "pass:neu", "-nodes", "-out", "back.pem")
        let (came, went) = (try await openssl("pkey", "-in", "back.pem"), try await openssl("pkey", "-in", "k.pem"))
        #expect(came == went)
        let there = try await nightjar("export", "p12", "out.p12", "--passphrase-env", "SECRET", environment: ["SECRET": "neu"])
        #expect(there.status == 1 && there.errors.contains("is there already"), "\(there)")
        let pem = try await nightjar("export", "p12", "--passphrase-env", "SECRET", environment: ["SECRET": "neu"])
        #expect(pem.status == 0 && pem.output.contains("BEGIN ENCRYPTED PRIVATE KEY") && pem.output.contains("BEGIN CERTIFICATE"))
        let plain = try await nightjar("export", "p12", "plain.pem", "--no-passphrase")
        #expect(plain.status == 0 && mode("plain.pem") == 0o600)
        #expect(try folder.text("plain.pem").contains("BEGIN PRIVATE KEY"))
    }

    @Test func aPassphraseIsAskedForOnTheTerminal() async throws {
        #expect(try await nightjar("create", "a").status == 0)
        let process = try Subprocess(
            try NightjarExecutable.path(), ["identity", "export", "a", "a.p12", "--data", "data"], folder: folder.path, input: .terminal)
        // What is typed before the question is dropped, so it is typed until the program has taken it.
        let outcome = try await eventually("the file is written") { () -> Subprocess.Outcome? in
            process.write("geheim\n")
            return process.isRunning ? nil : try await process.wait()
        }
        #expect(outcome.status == 0, "\(outcome)")
        try await openssl("pkcs12", "-in", "a.p12", "-passin", "pass:geheim", "-noout")
    }

    @Test func aStoreThatOthersCanReadIsNamed() async throws {
        #expect(try await nightjar("create", "a").status == 0)
        #expect(try await nightjar("create", "b").status == 0)
        chmod(folder.path("data/identities/a.pem"), 0o644)
        let list = try await nightjar("list")
        #expect(list.status == 1 && list.lines.count == 2 && list.errors.contains("chmod 600"), "\(list)")
        let json = try await nightjar("list", "--json")
        #expect(try json.json.asArray?.compactMap { $0["error"]?.asString }.count == 1, "\(json)")
    }
}
