import COpenSSL

/// A private key: EC, RSA, Ed25519 or Ed448, in memory or behind a provider.
package final class PrivateKey: Sendable, CustomStringConvertible, CustomReflectable {
    /// The `EVP_PKEY`, owned by this object. OpenSSL wipes it when it is freed.
    // Unsafe only in name: keys are reference-counted and locked by OpenSSL, and nothing here changes one.
    nonisolated(unsafe) let handle: OpaquePointer
    package let facts: KeyFacts

    /// Takes ownership of an `EVP_PKEY` reference.
    init(taking key: OpaquePointer) {
        handle = key
        facts = KeyFacts(of: key)
    }

    deinit { EVP_PKEY_free(handle) }

    /// Kind and size, but nothing of the key itself.
    package var description: String { "\(facts) private key" }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }

    /// Whether it matches the certificate's public key.
    package func matches(_ certificate: Certificate) -> Bool {
        defer { OpenSSLErrors.clear() }
        guard let other = X509_get0_pubkey(certificate.handle) else { return false }
        return EVP_PKEY_eq(handle, other) == 1
    }

    /// The first private key in a PEM text: PKCS#8 (plain or encrypted), or one of the older formats for RSA and EC keys.
    ///
    /// - Parameters:
    ///   - passphrase: for an encrypted key; otherwise ignored.
    ///   - path: named in errors.
    package static func readPEM(_ bytes: SecretBytes, passphrase: SecretBytes? = nil, path: String) throws(TLSFileError) -> PrivateKey {
        try bytes.withBytes { buffer throws(TLSFileError) in try readPEM(buffer, passphrase: passphrase, path: path) }
    }

    static func readPEM(_ bytes: UnsafeRawBufferPointer, passphrase: SecretBytes?, path: String) throws(TLSFileError) -> PrivateKey {
        guard bytes.count <= TLSLimits.fileBytes else {
            throw TLSFileError(.tooLarge, path: path, reason: "more than fileBytes = \(TLSLimits.fileBytes) bytes")
        }
        var reader = PEMReader(bytes, path: path)
        while let block = try reader.next() {
            guard block.isKey else { continue }
            if block.isEncrypted {
                guard passphrase != nil else {
                    throw TLSFileError(
                        .encrypted, path: path, reason: "the private key is encrypted and there is no passphrase",
                        advice: "import it into the key store with \"nightjar identity import\", or decrypt it with \"openssl pkey\"")
                }
                try checkIterations(block, path: path)
            }
            return try decode(bytes, block, passphrase, path: path)
        }
        throw TLSFileError(
            .noKey, path: path, reason: reader.blocks == 0 ? "no PEM text" : "no private key, only \(reader.seen)",
            advice: "expected a block that begins with -----BEGIN PRIVATE KEY-----")
    }

    private static func checkIterations(_ block: PEMBlock, path: String) throws(TLSFileError) {
        guard block.kind == "ENCRYPTED PRIVATE KEY" else { return }
        let iterations = nightjar_pkcs8_iterations(block.bytes.baseAddress, block.bytes.count)
        OpenSSLErrors.clear()
        guard iterations >= 0 else { throw TLSFileError(.malformed, path: path, reason: "the encrypted private key is damaged") }
        guard iterations <= TLSLimits.derivationIterations else {
            throw TLSFileError(
                .unsupported, path: path,
                reason: "its encryption asks for \(iterations) repetitions, more than derivationIterations = \(TLSLimits.derivationIterations)")
        }
    }

    private static func decode(
        _ bytes: UnsafeRawBufferPointer, _ block: PEMBlock, _ passphrase: SecretBytes?, path: String
    ) throws(TLSFileError) -> PrivateKey {
        let bio = MemoryBIO(reading: bytes)
        OpenSSLErrors.clear()
        let key = withExtendedLifetime(passphrase) {
            PEM_read_bio_PrivateKey(bio.pointer, nil, passphraseCallback, passphrase.map { Unmanaged.passUnretained($0).toOpaque() })
        }
        guard let key else {
            let reason = OpenSSLErrors.text(otherwise: "no key that this OpenSSL knows")
            if block.isEncrypted {
                throw TLSFileError(
                    .wrongPassphrase, path: path, reason: "the private key cannot be decrypted (\(reason))", advice: "check the passphrase")
            }
            throw TLSFileError(.malformed, path: path, reason: "the private key is damaged or of an unknown kind (\(reason))")
        }
        // Errors left in the queue come from formats that were tried first.
        OpenSSLErrors.clear()
        return PrivateKey(taking: key)
    }

    /// PKCS#8 in PEM, encrypted with AES-256 if there is a passphrase.
    package func writePEM(passphrase: SecretBytes? = nil) throws(CertificateError) -> SecretBytes {
        let out = MemoryBIO()
        let done = withExtendedLifetime(passphrase) {
            PEM_write_bio_PKCS8PrivateKey(
                out.pointer, handle, passphrase == nil ? nil : EVP_aes_256_cbc(), nil, 0, passphraseCallback,
                passphrase.map { Unmanaged.passUnretained($0).toOpaque() })
        }
        guard done == 1 else {
            throw CertificateError("the private key cannot be written: \(OpenSSLErrors.text(otherwise: "its provider does not give it out"))")
        }
        return out.withContents { contents in
            defer { OPENSSL_cleanse(UnsafeMutableRawPointer(mutating: contents.baseAddress), contents.count) }
            return SecretBytes(copying: contents)
        }
    }
}

/// Passes OpenSSL the passphrase to which the last argument points; without one it fails, so that OpenSSL never asks on a terminal.
func passphraseCallback(_ room: UnsafeMutablePointer<CChar>?, _ size: Int32, _: Int32, _ context: UnsafeMutableRawPointer?) -> Int32 {
    guard let room, let context else { return -1 }
    return Unmanaged<SecretBytes>.fromOpaque(context).takeUnretainedValue().withBytes { secret in
        guard secret.count <= Int(size) else { return -1 }
        UnsafeMutableRawBufferPointer(start: room, count: Int(size)).copyMemory(from: secret)
        return Int32(secret.count)
    }
}
