import COpenSSL
import Digests
import Encodings

/// An issuer of JSON Web Tokens, with a key that is made for the test. It shares no code with what verifies them.
package final class TokenSigner: Sendable {
    package enum Kind: Sendable { case rsa, p256, p384, ed25519, secret }

    package let kind: Kind
    /// The `kid` of its key.
    package let id: String
    /// The secret for HS256.
    private let secret: [UInt8]
    // Unsafe only in name: OpenSSL guards its keys, and nothing here changes one.
    private nonisolated(unsafe) let key: OpaquePointer?

    package init(_ kind: Kind, id: String = "key-1") throws {
        let made: OpaquePointer?
        switch kind {
        case .rsa: made = nightjar_make_rsa_key(2048)
        case .p256: made = nightjar_make_ec_key("P-256")
        case .p384: made = nightjar_make_ec_key("P-384")
        case .ed25519: made = nightjar_make_key("ED25519")
        case .secret: made = nil
        }
        guard made != nil || kind == .secret else { throw SupportError("OpenSSL cannot make a key") }
        (self.kind, self.id, key, secret) = (kind, id, made, try randomBytes(32))
    }

    deinit { EVP_PKEY_free(key) }

    /// The algorithm that its kind of key is mostly used with.
    package var algorithm: String {
        switch kind {
        case .rsa: "RS256"
        case .p256: "ES256"
        case .p384: "ES384"
        case .ed25519: "EdDSA"
        case .secret: "HS256"
        }
    }

    // MARK: - Tokens

    /// - Parameters:
    ///   - claims: JSON, valid or not.
    ///   - header: JSON; nil for one with `alg` and `kid`.
    package func token(_ claims: String, algorithm: String? = nil, header: String? = nil) throws -> String {
        let algorithm = algorithm ?? self.algorithm
        let header = header ?? "{\"alg\":\"\(algorithm)\",\"typ\":\"JWT\",\"kid\":\"\(id)\"}"
        let signed = "\(Base64.encodeURL(Array(header.utf8))).\(Base64.encodeURL(Array(claims.utf8)))"
        return "\(signed).\(Base64.encodeURL(try sign(Array(signed.utf8), algorithm)))"
    }

    /// Signs as in a token: for ECDSA, the two numbers one after the other.
    package func sign(_ message: [UInt8], _ algorithm: String) throws -> [UInt8] {
        guard let key else { return hmacSHA256(key: secret, message: message) }
        guard let context = EVP_MD_CTX_new() else { throw SupportError("OpenSSL has no context for a signature") }
        defer { EVP_MD_CTX_free(context) }
        let digest = kind == .ed25519 ? nil : algorithm.hasSuffix("384") ? EVP_sha384() : algorithm.hasSuffix("512") ? EVP_sha512() : EVP_sha256()
        var parameters: OpaquePointer?
        guard EVP_DigestSignInit(context, &parameters, digest, nil, key) == 1 else { throw SupportError("OpenSSL cannot sign with \(algorithm)") }
        if algorithm.hasPrefix("PS") {
            guard EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING) > 0, EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, 32) > 0 else {
                throw SupportError("OpenSSL cannot sign with \(algorithm)")
            }
        }
        var count = 0
        guard EVP_DigestSign(context, nil, &count, message, message.count) == 1 else { throw SupportError("OpenSSL cannot sign with \(algorithm)") }
        var signature = [UInt8](repeating: 0, count: count)
        guard EVP_DigestSign(context, &signature, &count, message, message.count) == 1 else { throw SupportError("OpenSSL cannot sign with \(algorithm)") }
        signature.removeLast(signature.count - count)
        return kind == .p256 || kind == .p384 ? try numbers(signature) : signature
    }

    private func numbers(_ der: [UInt8]) throws -> [UInt8] {
        let parsed = der.withUnsafeBufferPointer { bytes in
            var at = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &at, bytes.count)
        }
        guard let parsed else { throw SupportError("OpenSSL's signature cannot be parsed") }
        defer { ECDSA_SIG_free(parsed) }
        return bytes(ECDSA_SIG_get0_r(parsed), padded: coordinate) + bytes(ECDSA_SIG_get0_s(parsed), padded: coordinate)
    }

    private var coordinate: Int { kind == .p256 ? 32 : 48 }

    private func bytes(_ number: OpaquePointer?, padded count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        _ = BN_bn2binpad(number, &bytes, Int32(count))
        return bytes
    }

    // MARK: - Keys

    /// A JSON Web Key with its public half, or with its secret.
    ///
    /// - Parameter more: further members, such as `"use":"sig"`.
    package func webKey(_ more: String = "") throws -> String {
        let members: [(String, String)]
        switch kind {
        case .rsa: members = [("kty", "RSA"), ("n", try number("n", 256)), ("e", Base64.encodeURL([1, 0, 1]))]
        case .p256: members = [("kty", "EC"), ("crv", "P-256"), ("x", try number("qx", 32)), ("y", try number("qy", 32))]
        case .p384: members = [("kty", "EC"), ("crv", "P-384"), ("x", try number("qx", 48)), ("y", try number("qy", 48))]
        case .ed25519:
            var raw = [UInt8](repeating: 0, count: 32)
            var count = 32
            guard EVP_PKEY_get_raw_public_key(key, &raw, &count) == 1 else { throw SupportError("no public key") }
            members = [("kty", "OKP"), ("crv", "Ed25519"), ("x", Base64.encodeURL(raw))]
        case .secret: members = [("kty", "oct"), ("k", Base64.encodeURL(secret))]
        }
        return "{\(members.map { "\"\($0.0)\":\"\($0.1)\"" }.joined(separator: ",")),\"kid\":\"\(id)\"\(more.isEmpty ? "" : ",\(more)")}"
    }

    /// A set of keys with this one in it.
    package func webKeys() throws -> String { "{\"keys\":[\(try webKey())]}" }

    /// Its public half in PEM.
    package func pem() throws -> String {
        guard let out = BIO_new(BIO_s_mem()) else { throw SupportError("no memory") }
        defer { BIO_free(out) }
        guard PEM_write_bio_PUBKEY(out, key) == 1 else { throw SupportError("no public key") }
        var data: UnsafePointer<UInt8>?
        let count = nightjar_bio_contents(out, &data)
        return String(decoding: UnsafeBufferPointer(start: data, count: count), as: UTF8.self)
    }

    private func number(_ name: String, _ count: Int) throws -> String {
        var number: OpaquePointer?
        guard EVP_PKEY_get_bn_param(key, name, &number) == 1 else { throw SupportError("the key has no \(name)") }
        defer { BN_free(number) }
        return Base64.encodeURL(bytes(number, padded: count))
    }
}
