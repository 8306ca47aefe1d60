import COpenSSL
import Digests
import Encodings
import Glibc

/// An X.509 certificate. Two are equal if their bytes are.
package final class Certificate: Sendable, Hashable, CustomStringConvertible {
    /// The `X509`, owned by this object.
    // Unsafe only in name: OpenSSL protects its lazily filled fields with a lock, and nothing here changes it.
    nonisolated(unsafe) let handle: OpaquePointer

    /// The certificate in wire format.
    package let der: [UInt8]
    /// SHA-256 of ``der``.
    package let fingerprint: [UInt8]
    /// The start and end of its validity, in seconds since 1970.
    package let notBefore: Int64
    package let notAfter: Int64

    /// - Parameter der: exactly one certificate; trailing bytes are an error.
    package convenience init(der: [UInt8]) throws(CertificateError) {
        guard der.count <= TLSLimits.certificateBytes else {
            throw CertificateError("a certificate of \(der.count) bytes is more than certificateBytes = \(TLSLimits.certificateBytes)")
        }
        let parsed = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var at = buffer.baseAddress
            guard let x509 = d2i_X509(nil, &at, buffer.count) else { return nil }
            guard let at, let start = buffer.baseAddress, at - start == buffer.count else {
                X509_free(x509)
                return nil
            }
            return x509
        }
        guard let parsed else { throw CertificateError("no certificate: \(OpenSSLErrors.text(otherwise: "other bytes follow it"))") }
        try self.init(taking: parsed)
    }

    /// Takes ownership of an `X509` reference, even if it throws.
    init(taking x509: OpaquePointer) throws(CertificateError) {
        handle = x509
        do throws(CertificateError) {
            der = try Self.encode(x509)
            fingerprint = SHA256.hash(der)
            notBefore = try Self.seconds(X509_get0_notBefore(x509), "not before")
            notAfter = try Self.seconds(X509_get0_notAfter(x509), "not after")
        } catch {
            X509_free(x509)
            OpenSSLErrors.clear()
            throw error
        }
        // Fills OpenSSL's cache of extensions. Damaged extensions are detected when a chain is verified.
        _ = X509_check_purpose(x509, -1, 0)
        OpenSSLErrors.clear()
    }

    /// A certificate that OpenSSL also owns elsewhere.
    convenience init(borrowing x509: OpaquePointer) throws(CertificateError) {
        X509_up_ref(x509)
        try self.init(taking: x509)
    }

    deinit { X509_free(handle) }

    package static func == (left: Certificate, right: Certificate) -> Bool { left.der == right.der }
    package func hash(into hasher: inout Hasher) { hasher.combine(fingerprint) }

    /// The subject, for logs and errors.
    package var description: String { subject }

    // MARK: - Names

    /// The distinguished names as text: `O=Plant, CN=gateway`.
    package var subject: String { Self.text(of: X509_get_subject_name(handle)) }
    package var issuer: String { Self.text(of: X509_get_issuer_name(handle)) }

    /// The last common name of the subject; nil without one.
    package var commonName: String? {
        guard let name = X509_get_subject_name(handle) else { return nil }
        var index: Int32 = -1
        while true {
            let next = X509_NAME_get_index_by_NID(name, NID_commonName, index)
            guard next >= 0 else { break }
            index = next
        }
        guard index >= 0, let entry = X509_NAME_get_entry(name, index), let value = X509_NAME_ENTRY_get_data(entry) else { return nil }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&bytes, value)
        guard count >= 0, let bytes else {
            OpenSSLErrors.clear()
            return nil
        }
        defer { CRYPTO_free(bytes, #file, #line) }
        return String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }

    /// The serial number in lower-case hexadecimal digits, without leading zeros; negative ones with `-`.
    package var serialNumber: String {
        guard let number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(handle), nil) else {
            OpenSSLErrors.clear()
            return ""
        }
        defer { BN_free(number) }
        guard let text = BN_bn2hex(number) else { return "" }
        defer { CRYPTO_free(text, #file, #line) }
        let digits = String(cString: text).lowercased()
        let sign = digits.hasPrefix("-") ? "-" : ""
        let significant = digits.dropFirst(sign.utf8.count).drop { $0 == "0" }
        return significant.isEmpty ? "0" : sign + significant
    }

    // MARK: - Digests

    /// The fingerprint in lower-case hexadecimal digits.
    package var sha256: String { Hex.encode(fingerprint) }

    /// SHA-256 of the public key including its algorithm (SubjectPublicKeyInfo), as in `sha256/BASE64` pins.
    package var publicKeyDigest: [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(handle), &bytes)
        guard count > 0, let bytes else {
            OpenSSLErrors.clear()
            return []
        }
        defer { CRYPTO_free(bytes, #file, #line) }
        return SHA256.hash(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    /// ``publicKeyDigest`` in lower-case hexadecimal digits.
    package var spkiSHA256: String { Hex.encode(publicKeyDigest) }
    /// ``publicKeyDigest`` as a pin: `sha256/BASE64`.
    package var pin: String { "sha256/\(Base64.encode(publicKeyDigest))" }

    // MARK: - Properties

    /// Whether it was signed with its own key: the signature is verified.
    package var isSelfSigned: Bool {
        defer { OpenSSLErrors.clear() }
        return X509_self_signed(handle, 1) == 1
    }

    /// Whether names, key identifiers and purposes say that `other` issued it; the signature is not verified.
    package func isIssued(by other: Certificate) -> Bool {
        defer { OpenSSLErrors.clear() }
        return X509_check_issued(other.handle, handle) == X509_V_OK
    }

    /// Whether it may sign other certificates, according to its basic constraints (or, without any extensions, because it is a
    /// self-signed certificate of version 1).
    package var isCA: Bool { X509_check_ca(handle) > 0 }

    /// The security strength of the signature according to NIST: SHA-256 has 128 bits, SHA-1 63. 0 if unknown.
    package var signatureSecurityBits: Int {
        var bits: Int32 = 0
        defer { OpenSSLErrors.clear() }
        return X509_get_signature_info(handle, nil, nil, &bits, nil) == 1 ? max(0, Int(bits)) : 0
    }

    /// Its public key; kind `unknown` if this OpenSSL does not support the algorithm.
    package var key: KeyFacts {
        guard let key = X509_get0_pubkey(handle) else {
            OpenSSLErrors.clear()
            return KeyFacts(kind: .unknown, bits: 0, name: "unknown")
        }
        return KeyFacts(of: key)
    }

    /// PEM, including the final line break.
    package var pem: String {
        let out = MemoryBIO()
        guard PEM_write_bio_X509(out.pointer, handle) == 1 else {
            OpenSSLErrors.clear()
            return ""
        }
        return out.text
    }

    // MARK: - Implementation

    private static func encode(_ x509: OpaquePointer) throws(CertificateError) -> [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(x509, &bytes)
        guard count > 0, let bytes else { throw CertificateError(OpenSSLErrors.text(otherwise: "no certificate")) }
        defer { CRYPTO_free(bytes, #file, #line) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?, _ what: String) throws(CertificateError) -> Int64 {
        var parts = tm()
        guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else { throw CertificateError("its \"\(what)\" is not a time") }
        return Int64(timegm(&parts))
    }

    static func text(of name: OpaquePointer?) -> String {
        guard let name else { return "" }
        let out = MemoryBIO()
        guard nightjar_print_name(out.pointer, name) == 1 else {
            OpenSSLErrors.clear()
            return ""
        }
        return out.text
    }
}
