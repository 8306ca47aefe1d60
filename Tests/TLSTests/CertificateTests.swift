import TLS
import Testing

@Suite struct CertificateTests {
    @Test func garbageIsNoCertificate() {
        #expect(throws: CertificateError.self) { try Certificate(der: [0x30, 0x03, 1, 2, 3]) }
        #expect(throws: TLSFileError.self) { try Certificate.readPEM(Array("hello".utf8), path: "hello.pem") }
    }
}
