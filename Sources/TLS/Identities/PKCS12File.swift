import COpenSSL

/// PKCS#12 files (`.p12`, `.pfx`): an identity in one encrypted file, as browsers, Java and Apple's tools use them.
package enum PKCS12File {
    /// Iterations of the key derivation when writing files: a tenth of a second with the right passphrase.
    static let iterations: Int32 = 100_000

    /// Whether bytes look like PKCS#12: an ASN.1 sequence whose first member is the version 3.
    package static func isLikely(_ bytes: SecretBytes) -> Bool {
        bytes.withBytes { bytes in
            guard bytes.count > 8, bytes[0] == 0x30 else { return false }
            // The sequence's length takes one byte, or that byte says how many more it takes.
            let header = bytes[1] < 0x80 ? 2 : 2 + Int(bytes[1] & 0x7F)
            return header + 3 <= bytes.count && bytes[header] == 2 && bytes[header + 1] == 1 && bytes[header + 2] == 3
        }
    }

    /// - Parameter passphrase: nil for a file without one.
    package static func read(_ bytes: SecretBytes, passphrase: SecretBytes?, path: String) throws(TLSFileError) -> Identity {
        guard bytes.count <= TLSLimits.fileBytes else { throw TLSFile.tooLarge(path) }
        OpenSSLErrors.clear()
        defer { OpenSSLErrors.clear() }
        let file = try Parsed(bytes, library: nil, path: path)
        let iterations = nightjar_pkcs12_iterations(file.handle)
        guard iterations >= 0 else {
            throw TLSFileError(.malformed, path: path, reason: "is a damaged PKCS#12 file (\(OpenSSLErrors.text(otherwise: "its contents")))")
        }
        guard iterations <= TLSLimits.derivationIterations else {
            throw TLSFileError(
                .unsupported, path: path,
                reason: "its encryption asks for \(iterations) repetitions, more than derivationIterations = \(TLSLimits.derivationIterations)")
        }
        try checkPassphrase(file, passphrase, path)
        if let contents = file.open(passphrase) { return try contents.identity(path: path) }
        let errors = OpenSSLErrors.drain()
        // Old tools encrypt with RC2 and RC4, which OpenSSL 3 has in a separate provider.
        guard let library = LegacyLibrary() else {
            throw TLSFileError(
                .unsupported, path: path, reason: "cannot be decrypted: \(OpenSSLErrors.text(errors, otherwise: "unknown algorithm"))",
                advice: "OpenSSL's legacy provider is not installed here: convert the file elsewhere with \"openssl pkcs12 -legacy\"")
        }
        let again = try Parsed(bytes, library: library.handle, path: path)
        guard let contents = again.open(passphrase) else {
            throw TLSFileError(
                .malformed, path: path, reason: "is a damaged PKCS#12 file (\(OpenSSLErrors.text(errors, otherwise: "unknown reason")))")
        }
        return try contents.identity(path: path)
    }

    /// AES-256 and SHA-256 (PBES2), which current systems can read; Windows before 2019 and macOS before 10.15 cannot.
    ///
    /// - Parameter name: shown by tools that import it.
    package static func write(_ identity: Identity, name: String, passphrase: SecretBytes) throws(CertificateError) -> SecretBytes {
        OpenSSLErrors.clear()
        defer { OpenSSLErrors.clear() }
        guard let others = nightjar_certificates_new() else { fatalError("out of memory for a list") }
        defer { nightjar_certificates_free(others) }
        for certificate in identity.chain.dropFirst() where nightjar_certificates_push(others, certificate.handle) != 1 {
            fatalError("out of memory for a list")
        }
        let made = passphrase.withCString { secret in
            PKCS12_create(
                secret, name, identity.key.handle, identity.leaf.handle, others, NID_aes_256_cbc, NID_aes_256_cbc, iterations, -1, 0)
        }
        let created = "the PKCS#12 file cannot be made"
        guard let made else { throw CertificateError("\(created): \(OpenSSLErrors.text(otherwise: "the key's provider does not give it out"))") }
        defer { PKCS12_free(made) }
        let sealed = passphrase.withCString { PKCS12_set_mac(made, $0, -1, nil, 0, iterations, EVP_sha256()) }
        guard sealed == 1 else { throw CertificateError("\(created): \(OpenSSLErrors.text(otherwise: "no MAC"))") }
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_PKCS12(made, &bytes)
        guard count > 0, let bytes else { throw CertificateError("\(created): \(OpenSSLErrors.text(otherwise: "no bytes"))") }
        defer { CRYPTO_clear_free(bytes, Int(count), #file, #line) }
        return SecretBytes(copying: UnsafeRawBufferPointer(start: bytes, count: Int(count)))
    }

    private static func checkPassphrase(_ file: borrowing Parsed, _ passphrase: SecretBytes?, _ path: String) throws(TLSFileError) {
        guard PKCS12_mac_present(file.handle) == 1 else {
            throw TLSFileError(
                .unsupported, path: path, reason: "the PKCS#12 file has no MAC, so that nobody can tell whether it was changed",
                advice: "export it again with a passphrase")
        }
        let fits =
            if let passphrase {
                passphrase.withCString { PKCS12_verify_mac(file.handle, $0, -1) } == 1
            } else {
                // Tools disagree about how to represent a missing passphrase.
                PKCS12_verify_mac(file.handle, nil, 0) == 1 || PKCS12_verify_mac(file.handle, "", 0) == 1
            }
        OpenSSLErrors.clear()
        if fits { return }
        guard passphrase != nil else {
            throw TLSFileError(.encrypted, path: path, reason: "the PKCS#12 file needs a passphrase and there is none")
        }
        throw TLSFileError(.wrongPassphrase, path: path, reason: "the passphrase is not that of the PKCS#12 file")
    }

    /// A `PKCS12`.
    private struct Parsed: ~Copyable {
        let handle: OpaquePointer

        /// - Parameter library: the `OSSL_LIB_CTX` for decrypting it; nil for the default.
        init(_ bytes: SecretBytes, library: OpaquePointer?, path: String) throws(TLSFileError) {
            let parsed = bytes.withBytes { buffer -> OpaquePointer? in
                var file: OpaquePointer? = library == nil ? nil : PKCS12_init_ex(NID_pkcs7_data, library, nil)
                let bio = MemoryBIO(reading: buffer)
                // On failure OpenSSL frees the object passed to it.
                return d2i_PKCS12_bio(bio.pointer, &file)
            }
            guard let parsed else {
                throw TLSFileError(.malformed, path: path, reason: "is not a PKCS#12 file (\(OpenSSLErrors.text(otherwise: "damaged")))")
            }
            handle = parsed
        }

        deinit { PKCS12_free(handle) }

        /// nil if it cannot be decrypted; the reason is in OpenSSL's error queue.
        func open(_ passphrase: SecretBytes?) -> Contents? {
            var key: OpaquePointer?
            var certificate: OpaquePointer?
            var others: OpaquePointer?
            let done =
                if let passphrase {
                    passphrase.withCString { PKCS12_parse(handle, $0, &key, &certificate, &others) }
                } else {
                    PKCS12_parse(handle, nil, &key, &certificate, &others)
                }
            guard done == 1 else { return nil }
            return Contents(key: key, certificate: certificate, others: others)
        }
    }

    /// The contents of a file; each may be nil.
    private struct Contents: ~Copyable {
        let key: OpaquePointer?
        let certificate: OpaquePointer?
        let others: OpaquePointer?

        deinit {
            EVP_PKEY_free(key)
            X509_free(certificate)
            nightjar_certificates_free_all(others)
        }

        /// Created again from their bytes, so that nothing remains tied to another library context.
        func identity(path: String) throws(TLSFileError) -> Identity {
            guard let key else { throw TLSFileError(.noKey, path: path, reason: "the PKCS#12 file has no private key") }
            var chain: [Certificate] = []
            do throws(CertificateError) {
                if let certificate { chain.append(try Certificate(der: Certificate(borrowing: certificate).der)) }
                for index in 0..<min(nightjar_certificates_count(others), Int32(TLSLimits.certificatesInFile)) {
                    if let other = nightjar_certificates_at(others, index) { chain.append(try Certificate(der: Certificate(borrowing: other).der)) }
                }
            } catch { throw TLSFileError(.malformed, path: path, reason: error.reason) }
            guard !chain.isEmpty else { throw TLSFileError(.noCertificate, path: path, reason: "the PKCS#12 file has no certificate") }
            EVP_PKEY_up_ref(key)
            let text: SecretBytes
            do throws(CertificateError) { text = try PrivateKey(taking: key).writePEM() } catch {
                throw TLSFileError(.unsupported, path: path, reason: error.reason)
            }
            return try Identity(chain: chain, key: try PrivateKey.readPEM(text, path: path), path: path)
        }
    }

    /// A separate library context with OpenSSL's legacy provider, so that old ciphers are not available anywhere else.
    private struct LegacyLibrary: ~Copyable {
        let handle: OpaquePointer
        private let providers: [OpaquePointer]

        init?() {
            guard let handle = OSSL_LIB_CTX_new() else { return nil }
            let loaded = [OSSL_PROVIDER_load(handle, "default"), OSSL_PROVIDER_load(handle, "legacy")].compactMap(\.self)
            guard loaded.count == 2 else {
                for provider in loaded { OSSL_PROVIDER_unload(provider) }
                OSSL_LIB_CTX_free(handle)
                return nil
            }
            self.handle = handle
            providers = loaded
        }

        deinit {
            for provider in providers { OSSL_PROVIDER_unload(provider) }
            OSSL_LIB_CTX_free(handle)
        }
    }
}
