import COpenSSL
import Encodings

extension Certificate {
    /// All certificates in a PEM text, in order. Text and keys between them are ignored. A single certificate in DER is accepted, too.
    ///
    /// - Parameter path: named in errors.
    /// - Throws: ``TLSFileError`` also if there is none.
    package static func readPEM(_ bytes: [UInt8], path: String) throws(TLSFileError) -> [Certificate] {
        try bytes.withUnsafeBytes { buffer in Result { () throws(TLSFileError) in try readPEM(buffer, path: path) } }.get()
    }

    static func readPEM(_ bytes: UnsafeRawBufferPointer, path: String) throws(TLSFileError) -> [Certificate] {
        guard bytes.count <= TLSLimits.fileBytes else {
            throw TLSFileError(.tooLarge, path: path, reason: "more than fileBytes = \(TLSLimits.fileBytes) bytes")
        }
        if bytes.first == 0x30 {
            do throws(CertificateError) { return [try Certificate(der: Array(bytes))] } catch {
                throw TLSFileError(.malformed, path: path, reason: error.reason, advice: "a PEM or DER file with certificates is expected")
            }
        }
        var found: [Certificate] = []
        var reader = PEMReader(bytes, path: path)
        while let block = try reader.next() {
            guard block.isCertificate else { continue }
            guard found.count < TLSLimits.certificatesInFile else {
                throw TLSFileError(.tooLarge, path: path, reason: "more than certificatesInFile = \(TLSLimits.certificatesInFile) certificates")
            }
            do throws(CertificateError) { found.append(try block.certificate()) } catch {
                throw TLSFileError(.malformed, path: path, reason: "certificate \(found.count + 1) of the file: \(error.reason)")
            }
        }
        guard !found.isEmpty else {
            throw TLSFileError(
                .noCertificate, path: path,
                reason: reader.blocks == 0 ? "no PEM text" : "no certificate, only \(reader.seen)",
                advice: "expected at least one block that begins with -----BEGIN CERTIFICATE-----")
        }
        return found
    }
}

/// Iterates over the blocks of a PEM text.
struct PEMReader: ~Copyable {
    private let bio: MemoryBIO
    private let path: String
    private var names: [String] = []
    private(set) var blocks = 0

    /// - Parameter bytes: must outlive the reader.
    init(_ bytes: UnsafeRawBufferPointer, path: String) {
        bio = MemoryBIO(reading: bytes)
        self.path = path
    }

    /// The kinds of blocks found so far, for errors.
    var seen: String { names.joined(separator: ", ") }

    /// The next block; nil at the end of the text.
    mutating func next() throws(TLSFileError) -> PEMBlock? {
        var name: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var data: UnsafeMutablePointer<UInt8>?
        var count = 0
        OpenSSLErrors.clear()
        guard PEM_read_bio(bio.pointer, &name, &header, &data, &count) == 1, let name, let header, let data else {
            let errors = OpenSSLErrors.drain()
            if errors.isEmpty || errors.contains(where: { $0.library == ERR_LIB_PEM && $0.reason == PEM_R_NO_START_LINE }) { return nil }
            throw TLSFileError(
                .malformed, path: path, reason: "block \(blocks + 1) is not valid PEM: \(OpenSSLErrors.text(errors, otherwise: "damaged"))")
        }
        blocks += 1
        let kind = String(cString: name)
        if !names.contains(kind), names.count < 5 { names.append(String(kind.prefix(40))) }
        let block = PEMBlock(kind: kind, header: String(cString: header), data: data, count: max(0, count))
        CRYPTO_free(name, #file, #line)
        CRYPTO_free(header, #file, #line)
        return block
    }
}

/// One block: its bytes are wiped when it is released, because it may be a key.
final class PEMBlock {
    let kind: String
    /// `Proc-Type: 4,ENCRYPTED` and similar headers in old key files.
    let header: String
    private let data: UnsafeMutablePointer<UInt8>
    private let count: Int

    init(kind: String, header: String, data: UnsafeMutablePointer<UInt8>, count: Int) {
        self.kind = kind
        self.header = header
        self.data = data
        self.count = count
    }

    deinit { CRYPTO_clear_free(data, count, #file, #line) }

    var bytes: UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(start: data, count: count) }

    var isCertificate: Bool { kind == "CERTIFICATE" || kind == "X509 CERTIFICATE" || kind == "TRUSTED CERTIFICATE" }
    var isKey: Bool { kind == "PRIVATE KEY" || kind == "ENCRYPTED PRIVATE KEY" || kind.hasSuffix(" PRIVATE KEY") }
    var isEncrypted: Bool { kind == "ENCRYPTED PRIVATE KEY" || header.holds("ENCRYPTED") }

    func certificate() throws(CertificateError) -> Certificate {
        guard kind == "TRUSTED CERTIFICATE" else { return try Certificate(der: Array(bytes)) }
        // OpenSSL's own format: the certificate, followed by trust settings, which the operator configures elsewhere.
        guard count <= TLSLimits.certificateBytes else {
            throw CertificateError("a certificate of \(count) bytes is more than certificateBytes = \(TLSLimits.certificateBytes)")
        }
        var at: UnsafePointer<UInt8>? = UnsafePointer(data)
        guard let parsed = d2i_X509(nil, &at, count) else {
            throw CertificateError("no certificate: \(OpenSSLErrors.text(otherwise: "damaged"))")
        }
        return try Certificate(taking: parsed)
    }
}
