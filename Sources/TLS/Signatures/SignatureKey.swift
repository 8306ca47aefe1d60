import COpenSSL
import Digests
import Encodings

/// Verifies signatures: a public key, or a shared secret. The key determines its algorithms: a signature that claims a different one is invalid, so
/// nobody can have a public key used as a secret.
package final class SignatureKey: Sendable, CustomStringConvertible, CustomReflectable {
    private enum Material: Sendable {
        case key(PublicKey)
        case secret(SecretBytes)
    }

    /// The supported elliptic curves of JSON Web Algorithms.
    package enum Curve: String, Sendable, CaseIterable {
        case p256 = "P-256"
        case p384 = "P-384"

        fileprivate var identifier: [UInt8] { self == .p256 ? DER.p256 : DER.p384 }
        /// The size of each coordinate.
        package var bytes: Int { self == .p256 ? 32 : 48 }
    }

    private let material: Material
    package let algorithms: [SignatureAlgorithm]
    /// `RSA 2048`, `secret`; nothing of the key itself.
    package let description: String
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }

    /// Whether it is a shared secret.
    package var isSecret: Bool { if case .secret = material { true } else { false } }

    private init(_ material: Material, _ algorithms: [SignatureAlgorithm], _ description: String) {
        (self.material, self.algorithms, self.description) = (material, algorithms, description)
    }

    private convenience init(_ key: PublicKey) throws(CertificateError) {
        let facts = key.facts
        let algorithms: [SignatureAlgorithm]
        switch facts.kind {
        case .rsa:
            guard TLSLimits.rsaBits.contains(facts.bits) else {
                throw CertificateError("an RSA key of \(facts.bits) bits; expected \(TLSLimits.rsaBits.lowerBound) to \(TLSLimits.rsaBits.upperBound)")
            }
            algorithms = facts.name == "RSA-PSS" ? [.ps256] : [.rs256, .rs384, .rs512, .ps256]
        case .ec where facts.name == "prime256v1": algorithms = [.es256]
        case .ec where facts.name == "secp384r1": algorithms = [.es384]
        case .ed25519: algorithms = [.edDSA]
        default: throw CertificateError("a key of \(facts); expected RSA, EC on P-256 or P-384, or Ed25519")
        }
        self.init(.key(key), algorithms, facts.description)
    }

    // MARK: - Creating

    /// - Parameters: numbers in big-endian order.
    package static func rsa(modulus: [UInt8], exponent: [UInt8]) throws(CertificateError) -> SignatureKey {
        guard modulus.count <= TLSLimits.rsaBits.upperBound / 8 + 1, exponent.count <= 8 else {
            throw CertificateError("numbers of \(modulus.count) and \(exponent.count) bytes; expected at most \(TLSLimits.rsaBits.upperBound / 8) and 8")
        }
        // With an exponent of 1, every message would be its own signature.
        guard let last = exponent.last, last & 1 == 1, exponent.drop(while: { $0 == 0 }) != [1] else {
            throw CertificateError("an exponent that no RSA key has; expected an odd number of at least 3")
        }
        let numbers = DER.sequence(DER.unsigned(modulus), DER.unsigned(exponent))
        return try SignatureKey(PublicKey(der: DER.sequence(DER.sequence(DER.rsaEncryption, DER.null), DER.bitString(numbers))))
    }

    /// - Throws: also if the point is not on the curve.
    package static func ec(_ curve: Curve, x: [UInt8], y: [UInt8]) throws(CertificateError) -> SignatureKey {
        guard x.count == curve.bytes, y.count == curve.bytes else {
            throw CertificateError("coordinates of \(x.count) and \(y.count) bytes; expected \(curve.bytes) of \(curve.rawValue)")
        }
        let point = DER.bitString([0x04] + x + y)
        return try SignatureKey(PublicKey(der: DER.sequence(DER.sequence(DER.ecPublicKey, curve.identifier), point)))
    }

    package static func ed25519(_ bytes: [UInt8]) throws(CertificateError) -> SignatureKey {
        defer { OpenSSLErrors.clear() }
        guard bytes.count == 32 else { throw CertificateError("\(bytes.count) bytes; expected the 32 of an Ed25519 key") }
        guard let key = EVP_PKEY_new_raw_public_key(NID_ED25519, nil, bytes, bytes.count) else {
            throw CertificateError("not an Ed25519 key: \(OpenSSLErrors.text(otherwise: "OpenSSL refused it"))")
        }
        return try SignatureKey(PublicKey(taking: key))
    }

    /// For HS256. A shorter secret could be guessed from a single token.
    package static func secret(_ bytes: [UInt8]) throws(CertificateError) -> SignatureKey {
        guard bytes.count >= TLSLimits.sharedSecretBytes else {
            throw CertificateError("a secret of \(bytes.count) bytes; expected at least \(TLSLimits.sharedSecretBytes) (RFC 7518)")
        }
        return SignatureKey(.secret(bytes.withUnsafeBytes { SecretBytes(copying: $0) }), [.hs256], "secret")
    }

    /// All public keys in a PEM text, in order, including those of certificates.
    ///
    /// - Parameter path: named in errors.
    /// - Throws: ``TLSFileError`` also if there is none, or if there is a private key.
    package static func readPEM(_ bytes: UnsafeRawBufferPointer, path: String) throws(TLSFileError) -> [SignatureKey] {
        var found: [SignatureKey] = []
        var reader = PEMReader(bytes, path: path)
        while let block = try reader.next() {
            if block.isKey {
                throw TLSFileError(
                    .invalid, path: path, reason: "block \(reader.blocks) is a private key, which only the issuer of tokens should have",
                    advice: "write its public key with \"openssl pkey -pubout\", and remove the private one")
            }
            guard block.kind == "PUBLIC KEY" || block.isCertificate else { continue }
            guard found.count < TLSLimits.certificatesInFile else {
                throw TLSFileError(.tooLarge, path: path, reason: "more than certificatesInFile = \(TLSLimits.certificatesInFile) keys")
            }
            do throws(CertificateError) {
                found.append(try SignatureKey(block.isCertificate ? PublicKey(of: try block.certificate()) : PublicKey(der: Array(block.bytes))))
            } catch { throw TLSFileError(.malformed, path: path, reason: "key \(found.count + 1) of the file is \(error.reason)") }
        }
        guard !found.isEmpty else {
            throw TLSFileError(
                .noKey, path: path, reason: reader.blocks == 0 ? "neither JSON nor PEM text" : "no public key, only \(reader.seen)",
                advice: "expected a JSON Web Key Set, or at least one block that begins with -----BEGIN PUBLIC KEY-----")
        }
        return found
    }

    // MARK: - Verifying

    /// Whether the holder of the key has signed exactly these bytes, with one of the key's algorithms.
    package func accepts(_ signature: [UInt8], of message: [UInt8], by algorithm: SignatureAlgorithm) -> Bool {
        guard algorithms.contains(algorithm) else { return false }
        switch material {
        case .secret(let secret): return constantTimeEquals(hmacSHA256(key: secret.withBytes { Array($0) }, message: message), signature)
        case .key(let key): return key.accepts(signature, of: message, by: algorithm)
        }
    }
}

/// An `EVP_PKEY` for verifying.
private final class PublicKey: Sendable {
    // Unsafe only in name: keys are reference-counted and locked by OpenSSL, and nothing here changes one.
    private nonisolated(unsafe) let handle: OpaquePointer
    let facts: KeyFacts

    /// Takes ownership of an `EVP_PKEY` reference.
    init(taking key: OpaquePointer) { (handle, facts) = (key, KeyFacts(of: key)) }

    deinit { EVP_PKEY_free(handle) }

    /// From a SubjectPublicKeyInfo.
    convenience init(der: [UInt8]) throws(CertificateError) {
        OpenSSLErrors.clear()
        defer { OpenSSLErrors.clear() }
        let (key, isWhole) = der.withUnsafeBufferPointer { bytes in
            var at = bytes.baseAddress
            let key = d2i_PUBKEY(nil, &at, bytes.count)
            return (key, at == bytes.baseAddress.map { $0 + bytes.count })
        }
        guard let key else { throw CertificateError("not a public key that this OpenSSL knows (\(OpenSSLErrors.text(otherwise: "damaged")))") }
        guard isWhole else {
            EVP_PKEY_free(key)
            throw CertificateError("not a public key: bytes are left after it")
        }
        self.init(taking: key)
    }

    convenience init(of certificate: Certificate) throws(CertificateError) {
        defer { OpenSSLErrors.clear() }
        guard let key = X509_get_pubkey(certificate.handle) else {
            throw CertificateError("a certificate without a key that this OpenSSL knows (\(OpenSSLErrors.text(otherwise: "damaged")))")
        }
        self.init(taking: key)
    }

    func accepts(_ signature: [UInt8], of message: [UInt8], by algorithm: SignatureAlgorithm) -> Bool {
        defer { OpenSSLErrors.clear() }
        var signature = signature
        if let bytes = algorithm.ecdsaBytes {
            // OpenSSL expects the two numbers in DER.
            guard signature.count == 2 * bytes else { return false }
            signature = DER.sequence(DER.unsigned(signature.prefix(bytes)), DER.unsigned(signature.suffix(bytes)))
        }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        // Owned by the context.
        var parameters: OpaquePointer?
        guard EVP_DigestVerifyInit(context, &parameters, algorithm.digest, nil, handle) == 1 else { return false }
        if algorithm == .ps256 {
            // The salt is as long as the digest (RFC 7518, section 3.5).
            guard EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) > 0, EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, 32) > 0 else {
                return false
            }
        }
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}

/// Files with keys for verifying signatures.
package enum SignatureKeyFile {
    /// Everybody may read public keys; a file with a secret is read again by ``SecretFile``, which checks its permissions.
    package static func read(_ path: String) throws(TLSFileError) -> SecretBytes { try TLSFile.read(path, .certificates) }
}

extension SignatureAlgorithm {
    /// Nil for EdDSA, which signs the message itself.
    fileprivate var digest: OpaquePointer? {
        switch self {
        case .rs256, .ps256, .es256, .hs256: EVP_sha256()
        case .rs384, .es384: EVP_sha384()
        case .rs512: EVP_sha512()
        case .edDSA: nil
        }
    }

    /// The size of each of the two numbers in an ECDSA signature.
    fileprivate var ecdsaBytes: Int? {
        switch self {
        case .es256: 32
        case .es384: 48
        default: nil
        }
    }
}
