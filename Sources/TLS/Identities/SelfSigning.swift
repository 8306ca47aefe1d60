import COpenSSL
import Digests
import Glibc

/// Creates keys and self-signed certificates.
enum SelfSigning {
    /// A new certificate's validity starts this many seconds in the past, because peers' clocks may be a little behind.
    static let backdating: Int64 = 3600

    /// - Parameter kept: the key of the identity that is being renewed; nil for a new key.
    static func make(_ request: IdentityRequest, label: IdentityLabel, now: Int64, key kept: PrivateKey? = nil) throws(TLSFileError) -> Identity {
        try request.check(label)
        OpenSSLErrors.clear()
        defer { OpenSSLErrors.clear() }
        let key: PrivateKey
        let made: Certificate
        do throws(CertificateError) {
            if let kept { key = kept } else { key = try makeKey(request.key) }
            made = try certificate(request, subject: request.subject(label), key: key, now: now)
        } catch { throw TLSFileError(.unsupported, path: label.text, reason: error.reason) }
        return try Identity(chain: [made], key: key, path: label.text)
    }

    static func makeKey(_ kind: IdentityRequest.KeyKind) throws(CertificateError) -> PrivateKey {
        let made =
            switch kind {
            case .p256: nightjar_make_ec_key("P-256")
            case .p384: nightjar_make_ec_key("P-384")
            case .rsa2048: nightjar_make_rsa_key(2048)
            case .rsa3072: nightjar_make_rsa_key(3072)
            case .rsa4096: nightjar_make_rsa_key(4096)
            case .ed25519: nightjar_make_key("ED25519")
            }
        guard let made else { throw CertificateError("OpenSSL cannot make the \(kind.rawValue) key: \(OpenSSLErrors.text(otherwise: "unknown reason"))") }
        return PrivateKey(taking: made)
    }

    private static func certificate(
        _ request: IdentityRequest, subject: String, key: PrivateKey, now: Int64
    ) throws(CertificateError) -> Certificate {
        guard let x509 = X509_new() else { fatalError("out of memory for a certificate") }
        var done = false
        defer { if !done { X509_free(x509) } }
        func check(_ status: Int32, _ what: String) throws(CertificateError) {
            guard status == 1 else { throw CertificateError("the certificate's \(what): \(OpenSSLErrors.text(otherwise: "refused"))") }
        }
        // 127 random bits: positive, and within the 20 bytes of RFC 5280.
        var serial: [UInt8]
        do throws(DigestError) { serial = try randomBytes(16) } catch { throw CertificateError("\(error)") }
        serial[0] &= 0x7F
        serial[0] |= 0x40
        guard let number = BN_bin2bn(serial, Int32(serial.count), nil) else { fatalError("out of memory for a number") }
        defer { BN_free(number) }
        try check(X509_set_version(x509, 2), "version")
        try check(BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x509)) == nil ? 0 : 1, "serial number")
        try check(ASN1_TIME_set(X509_getm_notBefore(x509), time_t(max(0, now - backdating))) == nil ? 0 : 1, "beginning")
        let end = now + Int64(request.validityDays) * 86_400
        try check(ASN1_TIME_set(X509_getm_notAfter(x509), time_t(end)) == nil ? 0 : 1, "end")
        try check(X509_set_pubkey(x509, key.handle), "key")

        guard let name = X509_NAME_new() else { fatalError("out of memory for a name") }
        defer { X509_NAME_free(name) }
        try check(
            X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, Array(subject.utf8), Int32(subject.utf8.count), -1, 0),
            "subject")
        try check(X509_set_subject_name(x509, name), "subject")
        try check(X509_set_issuer_name(x509, name), "issuer")

        // It is its own authority, but cannot issue other certificates.
        var extensions = [(NID_basic_constraints, "critical,CA:FALSE"), (NID_subject_key_identifier, "hash")]
        let usage = request.key.rawValue.hasPrefix("rsa") ? "critical,digitalSignature,keyEncipherment" : "critical,digitalSignature"
        extensions += [(NID_key_usage, usage), (NID_ext_key_usage, "serverAuth,clientAuth")]
        // Checked above: none of these texts contains a character that is special to OpenSSL.
        let names = request.names.dns.map { "DNS:\($0)" } + request.names.ip.map { "IP:\($0)" }
        if !names.isEmpty { extensions.append((NID_subject_alt_name, names.joined(separator: ","))) }
        for (kind, value) in extensions { try check(nightjar_add_extension(x509, kind, value), "names and purposes") }

        let digest: OpaquePointer? = request.key == .ed25519 ? nil : request.key == .p384 ? EVP_sha384() : EVP_sha256()
        guard X509_sign(x509, key.handle, digest) > 0 else {
            throw CertificateError("the certificate cannot be signed: \(OpenSSLErrors.text(otherwise: "unknown reason"))")
        }
        done = true
        return try Certificate(taking: x509)
    }
}
