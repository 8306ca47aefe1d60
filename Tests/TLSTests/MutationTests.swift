import TLS
import TestRandomness
import TestSupport
import Testing

/// Files that somebody damaged: an error or a value, never a crash or a hang.
@Suite struct MutationTests {

    private static func mutate(_ bytes: [UInt8], _ random: inout SeededGenerator) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            guard !bytes.isEmpty else { return bytes }
            let at = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes[at] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            case 1: bytes[at] = UInt8.random(in: 0...255, using: &random)
            case 2: bytes.removeSubrange(at..<min(bytes.count, at + Int.random(in: 1...16, using: &random)))
            case 3: bytes.insert(contentsOf: (0..<Int.random(in: 1...16, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }, at: at)
            case 4: bytes.removeLast(bytes.count - at)
            default:
                // A piece of it once more, somewhere else.
                let piece = bytes[at..<min(bytes.count, at + 64)]
                bytes.insert(contentsOf: piece, at: Int.random(in: 0..<bytes.count, using: &random))
            }
        }
        return bytes
    }

    private static func use(_ certificate: Certificate) {
        _ = certificate.subject + certificate.issuer + (certificate.commonName ?? "") + certificate.serialNumber + certificate.pin
        _ = (certificate.alternativeNames, certificate.isSelfSigned, certificate.isCA, certificate.key, certificate.pem)
    }

    @Test func damagedFilesAreErrors() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed of damagedFilesAreErrors: \(seed)")
        var random = SeededGenerator(seed: seed)
        let tool = try OpenSSLTool()
        try await tool.selfSigned("a", ["-addext", "subjectAltName=DNS:a.example,IP:10.0.0.1,URI:urn:a,email:a@b"])
        try await tool("pkcs8", "-topk8", "-in", "a.key", "-v2", "aes256", "-iter", "10", "-passout", "pass:p", "-out", "e.key")
        try await tool("pkcs12", "-export", "-in", "a.pem", "-inkey", "a.key", "-passout", "pass:p", "-iter", "10", "-out", "a.p12")
        let pem = try tool.folder.read("a.pem") + tool.folder.read("a.key")
        let encrypted = try tool.folder.read("e.key")
        let der = try tool.certificates("a.pem")[0].der
        let p12 = try tool.folder.read("a.p12")
        let passphrase = SecretBytes("p")
        var taken = 0
        for _ in 0..<3000 {
            if let certificate = try? Certificate(der: Self.mutate(der, &random)) {
                taken += 1
                Self.use(certificate)
            }
            let text = Self.mutate(pem, &random)
            for certificate in (try? Certificate.readPEM(text, path: "p")) ?? [] { Self.use(certificate) }
            text.withUnsafeBytes { _ = try? PrivateKey.readPEM(SecretBytes(copying: $0), path: "p") }
            Self.mutate(encrypted, &random).withUnsafeBytes {
                _ = try? PrivateKey.readPEM(SecretBytes(copying: $0), passphrase: passphrase, path: "p")
            }
        }
        for _ in 0..<1500 {
            Self.mutate(p12, &random).withUnsafeBytes {
                let bytes = SecretBytes(copying: $0)
                _ = PKCS12File.isLikely(bytes)
                _ = try? PKCS12File.read(bytes, passphrase: passphrase, path: "p")
            }
        }
        // Some only change a signature or a name: the test looks behind the parser too.
        #expect(taken > 50)
    }
}
