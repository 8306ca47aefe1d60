import TLS
import TestSupport
import Testing

/// What is read from certificates and keys, against what the `openssl` tool says.
@Suite struct CertificateTests {
    @Test func whatOpenSSLReadsIsReadHereToo() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned(
            "all", key: "rsa:2048",
            [
                "-subj", "/O=Plant, \"7\"/OU=Müller/CN=gateway", "-utf8", "-set_serial", "0x00ab12",
                "-addext", "subjectAltName=DNS:gateway.example,DNS:*.plant.example,IP:10.0.0.7,IP:fe80::1,URI:urn:gateway:7,email:plant@example.com",
            ])
        let certificate = try #require(try tool.certificates("all.pem").first)
        #expect(certificate.subject == "O=Plant\\, \\\"7\\\", OU=Müller, CN=gateway")
        #expect(certificate.issuer == certificate.subject)
        #expect(certificate.commonName == "gateway")
        #expect(certificate.serialNumber == "ab12")
        #expect(
            certificate.alternativeNames
                == AlternativeNames(
                    dns: ["gateway.example", "*.plant.example"], ip: ["10.0.0.7", "fe80::1"], uri: ["urn:gateway:7"], email: ["plant@example.com"]))
        #expect(certificate.key.kind == .rsa && certificate.key.bits == 2048 && !certificate.key.isWeak)
        #expect(certificate.isSelfSigned && certificate.isCA)

        let fingerprint = try await tool("x509", "-in", "all.pem", "-noout", "-fingerprint", "-sha256")
        #expect(fingerprint.lowercased().replacing(":", with: "").contains("=\(certificate.sha256)\n"))
        let dates = try await tool("x509", "-in", "all.pem", "-noout", "-dates", "-dateopt", "iso_8601")
        #expect(dates.contains("notAfter=\(iso(certificate.notAfter))"), "\(dates)")
        #expect(certificate.notAfter - certificate.notBefore == 30 * 86_400)
        // A pin as curl and HPKP write it.
        try await tool("x509", "-in", "all.pem", "-noout", "-pubkey", "-out", "all.pub")
        try await tool("pkey", "-pubin", "-in", "all.pub", "-outform", "DER", "-out", "all.spki")
        let digest = try await tool("dgst", "-sha256", "-r", "all.spki")
        #expect(digest.hasPrefix(certificate.spkiSHA256))
        #expect(certificate.pin.hasPrefix("sha256/") && certificate.pin.utf8.count == 51)
        // DER and back.
        try await tool("x509", "-in", "all.pem", "-outform", "DER", "-out", "all.der")
        #expect(try tool.folder.read("all.der") == certificate.der)
        #expect(try tool.certificates("all.der") == [certificate])
        #expect(try tool.folder.text("all.pem").hasSuffix(certificate.pem))
    }

    @Test func theFaceOfAChain() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("root")
        try await tool.issued("middle", by: "root", isCA: true)
        try await tool.issued("leaf", by: "middle")
        let root = try tool.certificates("root.pem")[0]
        let middle = try tool.certificates("middle.pem")[0]
        let leaf = try tool.certificates("leaf.pem")[0]
        #expect(root.isSelfSigned && !middle.isSelfSigned && !leaf.isSelfSigned)
        #expect(root.isCA && middle.isCA && !leaf.isCA)
        #expect(leaf.isIssued(by: middle) && !leaf.isIssued(by: root))
        #expect(leaf.key.kind == .ec && leaf.key.bits == 256 && leaf.key.name == "prime256v1")

        // A file in any order, with words and keys in it, becomes a chain with the leaf first.
        try tool.folder.write(
            "mixed.pem",
            "some words\n" + root.pem + (try tool.folder.text("leaf.key")) + "more words\n" + middle.pem + leaf.pem)
        let mixed = try tool.certificates("mixed.pem")
        #expect(mixed == [root, middle, leaf])
        let identity = try Identity(chain: mixed, key: try tool.key("mixed.pem"), path: "mixed.pem")
        #expect(identity.chain == [leaf, middle, root])
        #expect(fileError { _ = try Identity(chain: [root, middle], key: try tool.key("leaf.key"), path: "p") }?.kind == .keyMismatch)
    }

    @Test func aSelfSignatureIsChecked() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("real")
        var forged = try tool.certificates("real.pem")[0].der
        // The last byte belongs to the signature.
        forged[forged.count - 1] ^= 1
        #expect(try !Certificate(der: forged).isSelfSigned)
    }

    @Test(arguments: ["rsa", "rsa-old", "ec", "ec-old", "ed25519", "ed448"])
    func keysOfAllForms(_ form: String) async throws {
        let tool = try OpenSSLTool()
        switch form {
        case "rsa": try await tool("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "a.key")
        case "rsa-old": try await tool("genrsa", "-traditional", "-out", "a.key", "2048")
        case "ec": try await tool("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", "a.key")
        // With a block of parameters before the key.
        case "ec-old": try await tool("ecparam", "-name", "prime256v1", "-genkey", "-out", "a.key")
        default: try await tool("genpkey", "-algorithm", form, "-out", "a.key")
        }
        try await tool("req", "-x509", "-key", "a.key", "-subj", "/CN=a", "-out", "a.pem", "-days", "1")
        let key = try tool.key("a.key")
        #expect(key.matches(try tool.certificates("a.pem")[0]))
        #expect(key.facts.kind.rawValue == form.split(separator: "-")[0])
        // Written and read again it is the same, for OpenSSL too.
        try tool.folder.write("b.key", try key.writePEM().text)
        #expect(try tool.key("b.key").matches(try tool.certificates("a.pem")[0]))
        let (ours, theirs) = (try await tool("pkey", "-in", "b.key", "-pubout"), try await tool("pkey", "-in", "a.key", "-pubout"))
        #expect(ours == theirs)
    }

    @Test(arguments: ["aes256", "des3", "traditional"])
    func encryptedKeys(_ form: String) async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a", key: "rsa:2048")
        if form == "traditional" {
            try await tool("rsa", "-traditional", "-in", "a.key", "-aes128", "-passout", "pass:right", "-out", "e.key")
        } else {
            try await tool("pkcs8", "-topk8", "-in", "a.key", "-v2", form, "-passout", "pass:right", "-out", "e.key")
        }
        #expect(try tool.key("e.key", "right").matches(try tool.certificates("a.pem")[0]))
        let without = fileError { _ = try tool.key("e.key") }
        #expect(without?.kind == .encrypted && without?.path == tool.path("e.key"))
        #expect(fileError { _ = try tool.key("e.key", "wrong") }?.kind == .wrongPassphrase)
        #expect(fileError { _ = try tool.key("e.key", String(repeating: "x", count: 5000)) }?.kind == .wrongPassphrase)
        // Ours, for OpenSSL.
        try tool.folder.write("o.key", try tool.key("a.key").writePEM(passphrase: SecretBytes("ours")).text)
        #expect(try tool.folder.text("o.key").contains("BEGIN ENCRYPTED PRIVATE KEY"))
        try await tool("pkey", "-in", "o.key", "-passin", "pass:ours", "-noout")
    }

    @Test func aKeyThatAsksForHoursOfWorkIsRefused() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        try await tool("pkcs8", "-topk8", "-in", "a.key", "-v2", "aes256", "-iter", "10000001", "-passout", "pass:p", "-out", "long.key")
        let error = fileError { _ = try tool.key("long.key", "p") }
        #expect(error?.kind == .unsupported && error?.reason.contains("derivationIterations = 10000000") == true, "\(String(describing: error))")
    }

    @Test func garbageIsNamed() throws {
        for (text, kind) in [
            ("", TLSFileError.Kind.noCertificate), ("hello\n", .noCertificate),
            ("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", .malformed),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", .malformed),
            ("-----BEGIN CERTIFICATE-----\nMIIB\n", .malformed),
            ("-----BEGIN PUBLIC KEY-----\nMAAA\n-----END PUBLIC KEY-----\n", .noCertificate),
        ] {
            let error = fileError { _ = try Certificate.readPEM(Array(text.utf8), path: "/x/y.pem") }
            #expect(error?.kind == kind && error?.path == "/x/y.pem", "\(text): \(String(describing: error))")
            let keyError = fileError { _ = try PrivateKey.readPEM(SecretBytes(text), path: "/x/y.key") }
            #expect(keyError?.kind == (kind == .malformed && !text.contains("MIIB\n-----END") ? .malformed : .noKey), "\(text): \(String(describing: keyError))")
        }
        #expect(throws: CertificateError.self) { try Certificate(der: [0x30, 0x03, 1, 2, 3]) }
        #expect(throws: CertificateError.self) { try Certificate(der: []) }
        #expect(throws: CertificateError.self) { try Certificate(der: [UInt8](repeating: 0x30, count: 70_000)) }
    }

    @Test func bytesBehindACertificateAreNoPartOfIt() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        let der = try tool.certificates("a.pem")[0].der
        let error = #expect(throws: CertificateError.self) { try Certificate(der: der + [0]) }
        #expect(error?.reason.contains("other bytes follow") == true)
    }

    @Test func printingAKeyShowsNothingOfIt() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        var dumped = ""
        dump(try tool.key("a.key"), to: &dumped)
        dump(SecretBytes("hunter2"), to: &dumped)
        #expect(!dumped.contains("hunter2") && dumped.contains("(secret)") && dumped.contains("EC prime256v1 private key"))
    }
}
