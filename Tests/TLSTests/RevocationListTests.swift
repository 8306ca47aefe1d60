import TLS
import TestSupport
import Testing

/// Revocation lists by their form: what OpenSSL would take for something else, or not look at, is refused where it is read.
@Suite struct RevocationListTests {
    /// `NAME.pem` of `root`, with the extension as OpenSSL's configuration writes it.
    private func list(_ tool: OpenSSLTool, _ name: String, _ extensions: String) async throws {
        try tool.folder.write(
            "\(name).cnf",
            """
            [ca]
            default_ca = d
            [d]
            database = index
            crlnumber = number
            default_md = sha256
            default_crl_days = 30
            [extensions]
            authorityKeyIdentifier = keyid:always
            \(extensions)
            """ + "\n")
        try tool.folder.write("index", "")
        try tool.folder.write("number", "01\n")
        try await tool("ca", "-config", "\(name).cnf", "-keyfile", "root.key", "-cert", "root.pem", "-gencrl", "-crlexts", "extensions", "-out", "\(name).pem")
    }

    @Test func listsThatWouldNotCountAsWhatTheyAreAreRefused() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("root")
        for (name, extensions, words) in [
            ("delta", "deltaCRL = critical,DER:02:01:01", "is a delta"),
            ("indirect", "issuingDistributionPoint = critical,@scope\n[scope]\nindirectCRL = TRUE", "is indirect"),
            ("reasons", "issuingDistributionPoint = critical,@scope\n[scope]\nonlysomereasons = keyCompromise", "only for some reasons"),
            ("attributes", "issuingDistributionPoint = critical,@scope\n[scope]\nonlyAA = TRUE", "attribute certificates"),
        ] {
            try await list(tool, name, extensions)
            let problems = TLSFileCheck.revocationLists(tool.path("\(name).pem"))
            #expect(problems.map(\.kind) == [.unsupported] && problems.map(\.path) == [tool.path("\(name).pem")], "\(name): \(problems)")
            #expect(problems.first?.reason.contains("CN=root, is ") == true && problems.first?.reason.contains(words) == true, "\(name): \(problems)")
        }
        // Beside its base a delta is found, too.
        try await list(tool, "base", "")
        try tool.folder.write("both.pem", try tool.folder.text("base.pem") + tool.folder.text("delta.pem"))
        #expect(TLSFileCheck.revocationLists(tool.path("both.pem")).first?.reason.contains("revocation list 2 of the file") == true)
        try await list(tool, "users", "issuingDistributionPoint = critical,@scope\n[scope]\nonlyuser = TRUE")
        for name in ["base", "users"] { #expect(TLSFileCheck.revocationLists(tool.path("\(name).pem")).isEmpty, "\(name)") }
    }

    @Test func listsOfOtherAuthoritiesAreFound() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("root")
        try await tool.selfSigned("other")
        try await list(tool, "base", "")
        #expect(TLSFileCheck.unknownIssuers(of: tool.path("base.pem"), roots: [tool.path("other.pem"), tool.path("root.pem")]).isEmpty)
        #expect(TLSFileCheck.unknownIssuers(of: tool.path("base.pem"), roots: [tool.path("other.pem")]) == ["CN=root"])
        #expect(TLSFileCheck.unknownIssuers(of: tool.path("base.pem"), roots: [tool.path("missing.pem")]).isEmpty)
    }
}
