@testable import TLS
import TestSupport
import Testing

/// What is read through OpenSSL's stores, by which security modules are reached. `file:` is the store that is always there.
@Suite struct ProviderTests {
    @Test func aStoreGivesCertificatesAndKeys() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        let certificate = try tool.certificates("a.pem")[0]
        #expect(try ProviderURI.certificates("file:\(tool.path("a.pem"))") == [certificate])
        #expect(try ProviderURI.key("file:\(tool.path("a.key"))", passphrase: nil).matches(certificate))
        #expect(fileError { _ = try ProviderURI.certificates("file:\(tool.path("a.key"))") }?.kind == .noCertificate)
        #expect(fileError { _ = try ProviderURI.key("file:\(tool.path("a.pem"))", passphrase: nil) }?.kind == .noKey)
        #expect(fileError { _ = try ProviderURI.key("file:\(tool.path("absent"))", passphrase: nil) }?.kind == .unsupported)
    }

    /// Without a passphrase nobody is asked: an agent has no terminal, and a command would hang.
    @Test func aPassphraseIsGivenAndNeverAskedFor() async throws {
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a")
        try await tool("pkey", "-in", "a.key", "-aes256", "-passout", "pass:right", "-out", "e.key")
        let certificate = try tool.certificates("a.pem")[0]
        let uri = "file:\(tool.path("e.key"))"
        #expect(try ProviderURI.key(uri, passphrase: SecretBytes("right")).matches(certificate))
        #expect(fileError { _ = try ProviderURI.key(uri, passphrase: SecretBytes("wrong")) } != nil)
        #expect(fileError { _ = try ProviderURI.key(uri, passphrase: nil) } != nil)
    }
}
