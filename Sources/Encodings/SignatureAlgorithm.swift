/// Signature algorithms by their names in JSON Web Algorithms (RFC 7518, RFC 8037).
public enum SignatureAlgorithm: String, Sendable, CaseIterable {
    case rs256 = "RS256"
    case rs384 = "RS384"
    case rs512 = "RS512"
    case ps256 = "PS256"
    case es256 = "ES256"
    case es384 = "ES384"
    case edDSA = "EdDSA"
    case hs256 = "HS256"
}
