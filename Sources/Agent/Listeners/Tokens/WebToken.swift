import Documents
import Encodings
import TLS

/// Why a token is refused. Its contents must not be trusted until the signature has been verified.
struct TokenProblem: Error, Sendable, Equatable, CustomStringConvertible {
    var reason: String
    /// Whether one of the keys has signed it.
    var isSigned: Bool

    init(_ reason: String, isSigned: Bool = false) { (self.reason, self.isSigned) = (reason, isSigned) }

    var description: String { reason }
}

/// A JSON Web Token (RFC 7519) with a valid signature: three parts in base64url, separated by dots.
struct WebToken: Sendable {
    enum Limits {
        /// `jwt_bytes`: size of a whole token. Those of large issuers, with many groups, have 2 to 4 KiB.
        static let bytes = 8 << 10
    }

    let claims: JSONObject

    /// - Parameters:
    ///   - algorithms: the accepted algorithms; empty for all that the keys are meant for.
    init(verifying text: String, by keys: [TokenKey], algorithms: Set<SignatureAlgorithm>) throws(TokenProblem) {
        guard text.utf8.count <= Limits.bytes else { throw TokenProblem("it has \(text.utf8.count) bytes, more than jwt_bytes = \(Limits.bytes)") }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { throw TokenProblem("it has \(Plural.count(parts.count, "part")), where a signed token has three") }
        let header = try Self.object(parts[0], "the header")
        let algorithm = try Self.algorithm(header)
        guard let signature = Base64.decodeURL(parts[2]), !signature.isEmpty else { throw TokenProblem("its signature is not base64url") }
        guard algorithms.isEmpty || algorithms.contains(algorithm) else { throw TokenProblem("its algorithm \(algorithm.rawValue) is not among \"algorithms\"") }
        var id: String?
        if let found = header["kid"] {
            guard let text = found.asString else { throw TokenProblem("its kid is not a string") }
            id = text
        }
        let candidates = TokenKey.candidates(keys, id: id, algorithm)
        guard !candidates.isEmpty else {
            throw TokenProblem("there is no key for \(algorithm.rawValue)\(id.map { " with the kid \(Self.shown($0))" } ?? "")")
        }
        let message = Array(text.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))
        let tried = candidates.prefix(TokenKey.Limits.tried)
        guard tried.contains(where: { $0.key.accepts(signature, of: message, by: algorithm) }) else {
            guard tried.count < candidates.count else { throw TokenProblem("its signature is wrong") }
            throw TokenProblem(
                "its signature is by none of the first \(tried.count) of \(candidates.count) keys for \(algorithm.rawValue), and it is tried with no more than "
                    + "jwt_keys_tried = \(TokenKey.Limits.tried): have the issuer write the kid of its key into the tokens' headers")
        }
        do throws(TokenProblem) { claims = try Self.object(parts[1], "the claims") } catch { throw TokenProblem(error.reason, isSigned: true) }
    }

    /// The algorithm that the token names; whether it is allowed depends on the key.
    private static func algorithm(_ header: JSONObject) throws(TokenProblem) -> SignatureAlgorithm {
        // Critical extensions that a recipient must understand; none are supported.
        guard header["crit"] == nil else { throw TokenProblem("its header has crit, and none of the extensions it can name is supported here") }
        if let type = header["typ"] {
            // The same issuer's other tokens have other purposes, such as logout+jwt.
            guard let type = type.asString?.lowercased(), ["jwt", "at+jwt", "application/jwt", "application/at+jwt"].contains(type) else {
                throw TokenProblem("its typ is \(shown(type.asString ?? "no text")); expected JWT or at+jwt")
            }
        }
        guard let name = header["alg"]?.asString else { throw TokenProblem("its header has no alg") }
        guard let algorithm = SignatureAlgorithm(rawValue: name) else { throw TokenProblem("its algorithm \(shown(name)) is not accepted") }
        return algorithm
    }

    private static func object(_ part: Substring, _ what: String) throws(TokenProblem) -> JSONObject {
        guard let bytes = Base64.decodeURL(part) else { throw TokenProblem("\(what) is not base64url") }
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue(parsing: bytes) } catch { throw TokenProblem("\(what): \(error)") }
        guard let object = value.asObject else { throw TokenProblem("\(what): expected a JSON object") }
        return object
    }

    /// A stranger's text, made safe for a log line.
    static func shown(_ text: String) -> String { JSONString.quoted(String(String.UnicodeScalarView(text.unicodeScalars.prefix(100)))) }
}
