import Environment
import Glibc
import TLS
import TestSupport
import Testing

/// Every way in which a file of the configuration can be wrong, named with its path.
@Suite struct FileCheckTests {
    /// A minute on: the certificates are made by another process, and a machine's clock may be put back meanwhile.
    private static var now: Int64 { Int64(time(nil)) + 60 }

    private static func check(
        _ tool: OpenSSLTool, _ certificate: String, _ key: String, passphrase: String? = nil, now: Int64 = now
    ) -> [TLSFileError] {
        TLSFileCheck.identity(
            .files(certificate: tool.path(certificate), key: tool.path(key), passphrase: passphrase.map { SecretBytes($0) }),
            store: KeyStore(dataFolder: tool.path("data"), time: SystemTime()), now: now)
    }

    @Test func filesThatAreRight() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        #expect(Self.check(tool, "a.pem", "a.key").isEmpty)
        try tool.folder.write("both.pem", try tool.folder.text("a.pem") + tool.folder.text("a.key"))
        chmod(tool.path("both.pem"), 0o600)
        #expect(Self.check(tool, "both.pem", "both.pem").isEmpty)
        try await tool("pkey", "-in", "a.key", "-aes256", "-passout", "pass:right", "-out", "e.key")
        chmod(tool.path("e.key"), 0o600)
        #expect(Self.check(tool, "a.pem", "e.key", passphrase: "right").isEmpty)
        #expect(TLSFileCheck.roots(tool.path("a.pem"), now: Self.now).isEmpty)
        #expect(TLSFileCheck.pins(tool.path("a.pem")).isEmpty)
    }

    @Test func everyWrongFileIsNamed() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        try await tool.selfSigned("other")
        try await tool.selfSigned("weak", key: "rsa:1024")
        try await tool("pkey", "-in", "a.key", "-aes256", "-passout", "pass:right", "-out", "encrypted.key")
        try tool.folder.write("garbage.key", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n")
        try tool.folder.write("empty.key", "")
        try tool.folder.write("large.key", bytes: [UInt8](repeating: 0x20, count: TLSLimits.fileBytes + 1))
        try tool.folder.copy(tool.path("a.key"), to: "loose.key")
        try tool.folder.copy(tool.path("a.pem"), to: "public.key")
        for name in ["public", "encrypted", "garbage", "empty", "large"] { chmod(tool.path("\(name).key"), 0o600) }
        chmod(tool.path("loose.key"), 0o644)
        tool.folder.makeFolder("folder.key")
        mkfifo(tool.path("pipe.key"), 0o600)
        symlink("/dev/zero", tool.path("device.key"))

        let wrong: [(certificate: String, key: String, kind: TLSFileError.Kind, path: String, words: String)] = [
            ("a.pem", "other.key", .keyMismatch, "other.key", "CN=a"),
            ("a.pem", "missing.key", .missing, "missing.key", "no such file"),
            ("missing.pem", "a.key", .missing, "missing.pem", "no such file"),
            ("a.pem", "encrypted.key", .encrypted, "encrypted.key", "no passphrase"),
            ("a.pem", "garbage.key", .malformed, "garbage.key", "damaged"),
            ("garbage.key", "a.key", .noCertificate, "garbage.key", "only PRIVATE KEY"),
            ("a.pem", "empty.key", .noKey, "empty.key", "no PEM"),
            ("a.pem", "public.key", .noKey, "public.key", "only CERTIFICATE"),
            ("a.pem", "large.key", .tooLarge, "large.key", "fileBytes"),
            ("a.pem", "loose.key", .loosePermissions, "loose.key", "chmod 600 \(tool.path("loose.key"))"),
            ("a.pem", "folder.key", .notAFile, "folder.key", "a folder"),
            // Nobody writes into this pipe: a reader that waits would never come back.
            ("a.pem", "pipe.key", .notAFile, "pipe.key", "a pipe"),
            ("pipe.key", "a.key", .notAFile, "pipe.key", "a pipe"),
            ("a.pem", "device.key", .notAFile, "device.key", "a device"),
            ("weak.pem", "weak.key", .weak, "weak.pem", "RSA 1024"),
        ]
        for row in wrong {
            let found = Self.check(tool, row.certificate, row.key)
            #expect(
                found.contains { $0.kind == row.kind && $0.path == tool.path(row.path) && $0.description.contains(row.words) },
                "\(row): \(found)")
        }
        let wrongPassphrase = Self.check(tool, "a.pem", "encrypted.key", passphrase: "wrong-7")
        #expect(wrongPassphrase.map(\.kind) == [.wrongPassphrase] && !"\(wrongPassphrase)".contains("wrong-7"))
        // Both files are wrong, both are named.
        #expect(Self.check(tool, "missing.pem", "loose.key").map(\.kind) == [.missing, .loosePermissions])
        for path in ["missing.pem", "garbage.key", "pipe.key", "folder.key", "large.key"] {
            #expect(TLSFileCheck.roots(tool.path(path), now: Self.now).map(\.path) == [tool.path(path)])
            #expect(TLSFileCheck.pins(tool.path(path)).map(\.path) == [tool.path(path)])
        }
    }

    @Test func weakSignaturesAreNamed() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("root", key: "rsa:2048")
        try await tool("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=leaf")
        chmod(tool.path("leaf.key"), 0o600)
        for (digest, kinds) in [("-sha1", [TLSFileError.Kind.weak]), ("-sha256", [])] {
            try await tool(
                "x509", "-req", "-in", "leaf.csr", "-CA", "root.pem", "-CAkey", "root.key", "-CAcreateserial", digest, "-out", "leaf.pem")
            #expect(Self.check(tool, "leaf.pem", "leaf.key").map(\.kind) == kinds)
        }
        // On itself it does not matter.
        try await tool.selfSigned("old", key: "rsa:2048", ["-sha1"])
        #expect(Self.check(tool, "old.pem", "old.key").isEmpty)
    }

    @Test func validityIsJudged() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a", days: 10)
        let certificate = try tool.certificates("a.pem")[0]
        for (now, kind) in [
            (certificate.notAfter, nil), (certificate.notAfter + 1, TLSFileError.Kind.expired), (certificate.notBefore, nil),
            (certificate.notBefore - 1, .notYetValid),
        ] {
            #expect(Self.check(tool, "a.pem", "a.key", now: now).map(\.kind) == (kind.map { [$0] } ?? []))
        }
        let expired = try #require(Self.check(tool, "a.pem", "a.key", now: certificate.notAfter + 1).first)
        #expect(expired.path == tool.path("a.pem") && expired.reason.contains("CN=a expired at 20"))
        // Both problems at once: expired, and no key.
        #expect(Self.check(tool, "a.pem", "none.key", now: certificate.notAfter + 1).map(\.kind) == [.missing, .expired])
        #expect(TLSFileCheck.roots(tool.path("a.pem"), now: certificate.notAfter + 1).map(\.kind) == [.expired])
        #expect(TLSFileCheck.roots(tool.path("a.pem"), now: certificate.notBefore - 1).map(\.kind) == [.notYetValid])
        // A pin counts by its bytes.
        #expect(TLSFileCheck.pins(tool.path("a.pem")).isEmpty)
        // One expired authority among good ones is how bundles are.
        try await tool.selfSigned("b", days: 20)
        try tool.folder.write("bundle.pem", try tool.folder.text("a.pem") + tool.folder.text("b.pem"))
        #expect(TLSFileCheck.roots(tool.path("bundle.pem"), now: certificate.notAfter + 1).isEmpty)
    }

    @Test(.enabled(if: geteuid() == 0, "needs root")) func keysOfRootMayBeReadByOneGroup() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        chmod(tool.path("a.key"), 0o640)
        #expect(Self.check(tool, "a.pem", "a.key").isEmpty)
        chmod(tool.path("a.key"), 0o660)
        #expect(Self.check(tool, "a.pem", "a.key").map(\.kind) == [.loosePermissions])
        chmod(tool.path("a.key"), 0o600)
        chown(tool.path("a.key"), 1234, 1234)
        #expect(Self.check(tool, "a.pem", "a.key").map(\.kind) == [.foreignOwner])
    }

    @Test func labelsAreLookedUp() async throws {
        let folder = try TemporaryFolder()
        let store = KeyStore(dataFolder: folder.path, time: SystemTime())
        let label = try IdentityLabel("gateway")
        let missing = TLSFileCheck.identity(.label(label), store: store, now: Self.now)
        #expect(missing.map(\.kind) == [.missing] && missing[0].path.hasSuffix("/identities/gateway.pem"))
        #expect(TLSFileCheck.identity(.anonymous, store: store, now: Self.now).isEmpty)
        #expect(!folder.exists("identities"))
        let made = try store.create(label, IdentityRequest(validityDays: 1))
        #expect(TLSFileCheck.identity(.label(label), store: store, now: Self.now).isEmpty)
        #expect(TLSFileCheck.identity(.label(label), store: store, now: made.leaf.notAfter + 1).map(\.kind) == [.expired])
        chmod(store.path(of: label), 0o644)
        #expect(TLSFileCheck.identity(.label(label), store: store, now: Self.now).map(\.kind) == [.loosePermissions])
    }

    @Test func pathsAreQuotedForTheShell() async throws {
        let tool = try OpenSSLTool()
        try tool.folder.write("it's a key", "x")
        let error = Self.check(tool, "it's a key", "it's a key").last
        #expect(error?.advice == "run: chmod 600 '\(tool.folder.path)/it'\\''s a key'")
    }
}
