import Environment
import TLS
import TestSupport
import Testing

/// PKCS#12 between the `openssl` tool and the key store, in both directions.
@Suite struct PKCS12Tests {
    private static func read(_ tool: OpenSSLTool, _ name: String, _ passphrase: String?) throws -> Identity {
        try PKCS12File.read(tool.secret(name), passphrase: passphrase.map { SecretBytes($0) }, path: tool.path(name))
    }

    /// A leaf with the chain that issued it, and `leaf.p12`.
    private static func chain(_ more: String...) async throws -> OpenSSLTool {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("root")
        try await tool.issued("middle", by: "root", isCA: true)
        try await tool.issued("leaf", by: "middle")
        try tool.folder.write("others.pem", try tool.folder.text("root.pem") + tool.folder.text("middle.pem"))
        let outcome = try await Subprocess.run(
            "/usr/bin/openssl",
            ["pkcs12", "-export", "-in", "leaf.pem", "-inkey", "leaf.key", "-certfile", "others.pem", "-out", "leaf.p12", "-name", "gateway"] + more,
            folder: tool.folder.path)
        #expect(outcome.status == 0, "\(outcome)")
        return tool
    }

    @Test func fromOpenSSL() async throws {
        let tool = try await Self.chain("-passout", "pass:pässword")
        #expect(PKCS12File.isLikely(try tool.secret("leaf.p12")))
        let identity = try Self.read(tool, "leaf.p12", "pässword")
        let expected = try ["leaf.pem", "middle.pem", "root.pem"].flatMap { try tool.certificates($0) }
        #expect(identity.chain == expected)
        #expect(identity.key.matches(expected[0]))
        #expect(fileError { _ = try Self.read(tool, "leaf.p12", "password") }?.kind == .wrongPassphrase)
        let without = fileError { _ = try Self.read(tool, "leaf.p12", nil) }
        #expect(without?.kind == .encrypted && without?.path == tool.path("leaf.p12"))
    }

    @Test func toOpenSSL() async throws {
        let tool = try await Self.chain("-passout", "pass:x")
        let identity = try Self.read(tool, "leaf.p12", "x")
        try tool.folder.write(
            "ours.p12", bytes: PKCS12File.write(identity, name: "gateway ü", passphrase: SecretBytes("geheim ü")).array)
        let shown = try await tool("pkcs12", "-in", "ours.p12", "-passin", "pass:geheim ü", "-nodes", "-out", "ours.pem", "-info")
        _ = shown
        #expect(try tool.certificates("ours.pem").count == 3)
        #expect(try tool.key("ours.pem").matches(identity.leaf))
        let information = try await Subprocess.run(
            "/usr/bin/openssl", ["pkcs12", "-in", "ours.p12", "-passin", "pass:geheim ü", "-noout", "-info"], folder: tool.folder.path)
        #expect(information.errors.contains("PBES2, PBKDF2, AES-256-CBC, Iteration 100000, PRF hmacWithSHA256"), "\(information)")
        #expect(information.errors.contains("MAC: sha256, Iteration 100000"), "\(information)")
        // And back into the store.
        let store = KeyStore(dataFolder: tool.folder.path, time: SystemTime())
        try store.add(try Self.read(tool, "ours.p12", "geheim ü"), as: try IdentityLabel("again"))
        #expect(try store.load(try IdentityLabel("again")).chain == identity.chain)
    }

    @Test func filesOfOldTools() async throws {
        // RC2 with 40 bits, as Java and Windows wrote it for twenty years.
        let tool = try await Self.chain("-legacy", "-passout", "pass:old")
        let identity = try Self.read(tool, "leaf.p12", "old")
        #expect(identity.chain.count == 3)
        #expect(identity.key.matches(try tool.certificates("leaf.pem")[0]))
        #expect(fileError { _ = try Self.read(tool, "leaf.p12", "new") }?.kind == .wrongPassphrase)
    }

    @Test func withoutEncryption() async throws {
        let tool = try await Self.chain("-passout", "pass:", "-keypbe", "NONE", "-certpbe", "NONE")
        #expect(try Self.read(tool, "leaf.p12", nil).chain.count == 3)
        let bare = try await Self.chain("-passout", "pass:", "-nomac")
        let error = fileError { _ = try Self.read(bare, "leaf.p12", nil) }
        #expect(error?.kind == .unsupported && error?.reason.contains("no MAC") == true)
    }

    @Test func aFileThatAsksForHoursOfWorkIsRefused() async throws {
        let tool = try await Self.chain("-passout", "pass:x", "-iter", "4000000")
        // Three derivations (certificates, key, MAC) of four million are more than ten million.
        let error = fileError { _ = try Self.read(tool, "leaf.p12", "x") }
        #expect(error?.kind == .unsupported && error?.reason.contains("12000000 repetitions") == true, "\(String(describing: error))")
    }

    @Test func halvesAreNoIdentity() async throws {
        let tool = try await Self.chain("-passout", "pass:x")
        try await tool("pkcs12", "-export", "-nokeys", "-in", "leaf.pem", "-passout", "pass:x", "-out", "public.p12")
        #expect(fileError { _ = try Self.read(tool, "public.p12", "x") }?.kind == .noKey)
        try await tool("pkcs12", "-export", "-nocerts", "-inkey", "leaf.key", "-passout", "pass:x", "-out", "key.p12")
        #expect(fileError { _ = try Self.read(tool, "key.p12", "x") }?.kind == .noCertificate)
        var cut = try tool.folder.read("leaf.p12")
        cut.removeLast(10)
        try tool.folder.write("cut.p12", bytes: cut)
        #expect(fileError { _ = try Self.read(tool, "cut.p12", "x") }?.kind == .malformed)
    }
}
