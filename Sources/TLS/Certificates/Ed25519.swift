import COpenSSL
import Encodings

/// An Ed25519 public key in the form used in configurations: `ed25519/` and the base64 of its 32 bytes.
package struct VerifyingKey: Sendable, Hashable, CustomStringConvertible {
    package static let prefix = "ed25519/"
    private let bytes: [UInt8]

    /// Nil if the text is not a key.
    package init?(_ text: String) {
        guard text.hasPrefix(Self.prefix), let bytes = Base64.decode(text.dropFirst(Self.prefix.count)), bytes.count == 32 else { return nil }
        self.bytes = bytes
    }

    fileprivate init(bytes: [UInt8]) { self.bytes = bytes }

    package var description: String { Self.prefix + Base64.encode(bytes) }

    /// Whether the holder of the private key has signed exactly these bytes.
    package func accepts(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        defer { OpenSSLErrors.clear() }
        guard signature.count == 64, let key = EVP_PKEY_new_raw_public_key(NID_ED25519, nil, bytes, bytes.count) else { return false }
        defer { EVP_PKEY_free(key) }
        guard let context = EVP_MD_CTX_new() else { return false }
        defer { EVP_MD_CTX_free(context) }
        guard EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1 else { return false }
        return EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }
}

extension PrivateKey {
    package static func makeEd25519() throws(CertificateError) -> PrivateKey { try SelfSigning.makeKey(.ed25519) }

    /// The key that verifies its signatures; nil for keys of other kinds.
    package var verifyingKey: VerifyingKey? {
        guard facts.kind == .ed25519 else { return nil }
        defer { OpenSSLErrors.clear() }
        var count = 32
        var bytes = [UInt8](repeating: 0, count: count)
        guard EVP_PKEY_get_raw_public_key(handle, &bytes, &count) == 1, count == 32 else { return nil }
        return VerifyingKey(bytes: bytes)
    }

    /// An Ed25519 signature, 64 bytes.
    package func sign(_ message: [UInt8]) throws(CertificateError) -> [UInt8] {
        defer { OpenSSLErrors.clear() }
        guard facts.kind == .ed25519 else { throw CertificateError("an Ed25519 key is needed to sign, not \(facts)") }
        guard let context = EVP_MD_CTX_new() else { throw CertificateError("out of memory for a signature") }
        defer { EVP_MD_CTX_free(context) }
        var count = 64
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSignInit(context, nil, nil, nil, handle) == 1, EVP_DigestSign(context, &signature, &count, message, message.count) == 1, count == 64
        else { throw CertificateError("cannot sign: \(OpenSSLErrors.text(otherwise: "OpenSSL refused the key"))") }
        return signature
    }
}
