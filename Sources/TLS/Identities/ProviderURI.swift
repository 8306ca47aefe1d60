import COpenSSL

/// Keys and certificates in security modules: URIs that OpenSSL passes to the configured provider (openssl.cnf).
package enum ProviderURI {
    /// Schemes that cannot be a path: PKCS#11 (RFC 7512), and those of the TPM 2 provider.
    static let schemes = ["pkcs11:", "tpm2:", "handle:", "object:"]

    package static func isOne(_ text: String) -> Bool { schemes.contains { text.utf8.starts(with: $0.utf8) } }

    /// The URI for logs and errors, without the secret `pin-value`.
    package static func redacted(_ uri: String) -> String {
        guard isOne(uri) else { return uri }
        let name = Array("pin-value=".utf8)
        var shown: [UInt8] = []
        let bytes = Array(uri.utf8)
        var index = 0
        while index < bytes.count {
            if bytes[index...].starts(with: name) {
                shown += name + Array("(secret)".utf8)
                index += name.count
                while index < bytes.count, bytes[index] != UInt8(ascii: "&"), bytes[index] != UInt8(ascii: ";") { index += 1 }
            } else {
                shown.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: shown, as: UTF8.self)
    }

    static func certificates(_ uri: String) throws(TLSFileError) -> [Certificate] {
        var found: [Certificate] = []
        try load(uri, expecting: OSSL_STORE_INFO_CERT, passphrase: nil) { (info) throws(TLSFileError) in
            guard let x509 = OSSL_STORE_INFO_get1_CERT(info) else { return }
            do throws(CertificateError) { found.append(try Certificate(taking: x509)) } catch {
                throw TLSFileError(.malformed, path: redacted(uri), reason: error.reason)
            }
        }
        guard !found.isEmpty else { throw TLSFileError(.noCertificate, path: redacted(uri), reason: "the provider has no certificate there") }
        return found
    }

    static func key(_ uri: String, passphrase: SecretBytes?) throws(TLSFileError) -> PrivateKey {
        var found: PrivateKey?
        try load(uri, expecting: OSSL_STORE_INFO_PKEY, passphrase: passphrase) { info in
            if found == nil, let key = OSSL_STORE_INFO_get1_PKEY(info) { found = PrivateKey(taking: key) }
        }
        guard let found else {
            throw TLSFileError(.noKey, path: redacted(uri), reason: "the provider has no private key there", advice: "is the PIN given (pin-source)?")
        }
        return found
    }

    /// Tests also use `file:` URIs, which need no security module.
    static func load(
        _ uri: String, expecting kind: Int32, passphrase: SecretBytes?, _ take: (OpaquePointer) throws(TLSFileError) -> Void
    ) throws(TLSFileError) {
        OpenSSLErrors.clear()
        defer { OpenSSLErrors.clear() }
        // A method that asks nobody: without it, OpenSSL would ask for the PIN on the terminal.
        let method = passphrase == nil ? nil : UI_UTIL_wrap_read_pem_callback(passphraseCallback, 0)
        defer { if let method { UI_destroy_method(method) } }
        let context = passphrase.map { Unmanaged.passUnretained($0).toOpaque() }
        let store = withExtendedLifetime(passphrase) { OSSL_STORE_open(uri, method ?? UI_null(), context, nil, nil) }
        guard let store else {
            let reason = OpenSSLErrors.text(otherwise: "unknown reason")
            throw TLSFileError(
                .unsupported, path: redacted(uri), reason: "OpenSSL cannot open it (\(reason))",
                advice: "a provider for \(uri.prefix { $0 != ":" }): has to be installed and activated in openssl.cnf")
        }
        defer { OSSL_STORE_close(store) }
        _ = OSSL_STORE_expect(store, kind)
        var objects = 0
        while OSSL_STORE_eof(store) == 0, objects < TLSLimits.storeObjects {
            objects += 1
            guard let info = withExtendedLifetime(passphrase, { OSSL_STORE_load(store) }) else { continue }
            defer { OSSL_STORE_INFO_free(info) }
            if OSSL_STORE_INFO_get_type(info) == kind { try take(info) }
        }
    }
}
