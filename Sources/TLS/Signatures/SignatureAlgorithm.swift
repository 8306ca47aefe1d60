import COpenSSL

/// How a signature is made, by the names of JSON Web Algorithms (RFC 7518, RFC 8037).
package enum SignatureAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case es256 = "ES256"
    case es384 = "ES384"
    case edDSA = "EdDSA"
    case hs256 = "HS256"

    /// Nil for EdDSA, which takes the message as it is.
    var digest: OpaquePointer? {
        switch self {
        case .rs256, .ps256, .es256, .hs256: EVP_sha256()
        case .rs384, .es384: EVP_sha384()
        case .rs512: EVP_sha512()
        case .edDSA: nil
        }
    }

    /// Bytes of each of the two numbers that an ECDSA signature is.
    var ecdsaBytes: Int? {
        switch self {
        case .es256: 32
        case .es384: 48
        default: nil
        }
    }
}
