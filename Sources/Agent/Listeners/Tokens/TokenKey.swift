import Documents
import Encodings
import TLS

/// A key for verifying tokens, and what its file says about it.
struct TokenKey: Sendable {
    enum Limits {
        /// `jwt_keys`: keys in one file. Issuers have two or three, one of which is being phased out.
        static let count = 64
        /// `jwt_keys_tried`: keys that one token is tried with, in the order of the file. Each costs a verification, which anybody may ask for.
        static let tried = 8
    }

    /// `kid`; nil if the file has none, as with PEM: then the key is tried for every token whose kid no other key has.
    var id: String?
    var key: SignatureKey
    /// The key's algorithms that its file allows.
    var algorithms: [SignatureAlgorithm]

    /// Whether this key may have signed a token that names this key id and algorithm.
    func fits(id wanted: String?, _ algorithm: SignatureAlgorithm) -> Bool {
        guard algorithms.contains(algorithm) else { return false }
        guard let id, let wanted else { return true }
        return id.utf8.elementsEqual(wanted.utf8)
    }

    /// The keys that may have signed such a token. Where one has the token's kid, only that one: a wrong token must not cost a verification by each key.
    static func candidates(_ keys: [TokenKey], id: String?, _ algorithm: SignatureAlgorithm) -> [TokenKey] {
        let fitting = keys.filter { $0.fits(id: id, algorithm) }
        let named = id == nil ? [] : fitting.filter { $0.id != nil }
        return named.isEmpty ? fitting : named
    }

    /// What to tell about keys of which some are never tried, because there are more without a `kid` for one algorithm than ``Limits/tried``; nil if there
    /// are none such.
    ///
    /// - Parameters:
    ///   - algorithms: the accepted algorithms; empty for all.
    ///   - hasSecret: whether there is also a secret for HS256, which is tried first.
    static func untried(_ keys: [TokenKey], taking algorithms: Set<SignatureAlgorithm>, hasSecret: Bool) -> String? {
        let counts = SignatureAlgorithm.allCases.filter { algorithms.isEmpty || algorithms.contains($0) }.map { algorithm in
            let secrets = hasSecret && algorithm == .hs256 ? 1 : 0
            return (algorithm: algorithm, count: secrets + keys.count(where: { $0.id == nil && $0.algorithms.contains(algorithm) }))
        }.filter { $0.count > Limits.tried }
        guard let most = counts.map(\.count).max() else { return nil }
        return "\(most) keys without a kid are for \(names(Set(counts.map(\.algorithm)))), and a token is tried with the first \(Limits.tried) of them (jwt_keys_tried), so that "
            + "the others verify nothing: keep those that tokens are signed with, or have the issuer give each key and each token a kid"
    }

    /// The keys of a file: a JSON Web Key Set (RFC 7517), one JSON Web Key, or public keys and certificates in PEM.
    ///
    /// - Parameter algorithms: the accepted algorithms; empty for all. A file without a key for any of them is an error, because it would verify
    ///   nothing.
    static func read(_ path: String, taking algorithms: Set<SignatureAlgorithm> = []) throws(TLSFileError) -> [TokenKey] {
        let bytes = try SignatureKeyFile.read(path)
        let keys = try bytes.withBytes { raw throws(TLSFileError) in try parse(raw, path) }
        let known = Set(keys.flatMap(\.algorithms))
        guard algorithms.isEmpty || !known.isDisjoint(with: algorithms) else {
            throw TLSFileError(
                .noKey, path: path, reason: "its keys are for \(names(known)), and \"algorithms\" accepts \(names(algorithms)) only",
                advice: "name one of the keys' algorithms there, or a file with keys for those that are taken")
        }
        // Anybody who can read the secret can sign with it.
        if keys.contains(where: \.key.isSecret) { _ = try SecretFile.read(path) }
        return keys
    }

    private static func names(_ algorithms: Set<SignatureAlgorithm>) -> String {
        SignatureAlgorithm.allCases.filter { algorithms.contains($0) }.map(\.rawValue).joined(separator: ", ")
    }

    private static func parse(_ bytes: UnsafeRawBufferPointer, _ path: String) throws(TLSFileError) -> [TokenKey] {
        let keys: [TokenKey]
        if bytes.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) == UInt8(ascii: "{") {
            keys = try keySet(bytes, path)
        } else {
            keys = try SignatureKey.readPEM(bytes, path: path).map { TokenKey(id: nil, key: $0, algorithms: $0.algorithms) }
        }
        try checkCount(keys.count, path)
        return keys
    }

    private static func checkCount(_ count: Int, _ path: String) throws(TLSFileError) {
        guard count <= Limits.count else {
            throw TLSFileError(.tooLarge, path: path, reason: "has \(Plural.count(count, "key")), more than jwt_keys = \(Limits.count)", advice: "keep those that tokens are signed with")
        }
    }

    private static func keySet(_ bytes: UnsafeRawBufferPointer, _ path: String) throws(TLSFileError) -> [TokenKey] {
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue(parsing: bytes) } catch {
            throw TLSFileError(.malformed, path: path, reason: "is not JSON:  \(error)", advice: "expected a JSON Web Key Set: {\"keys\": [ … ]}")
        }
        guard let entries = value["keys"]?.asArray ?? (value["kty"] == nil ? nil : [value]) else {
            throw TLSFileError(.malformed, path: path, reason: "is JSON without an array \"keys\"", advice: "expected a JSON Web Key Set: {\"keys\": [ … ]}")
        }
        try checkCount(entries.count, path)
        var keys: [TokenKey] = []
        for (index, entry) in entries.enumerated() {
            let id = entry["kid"]?.asString
            func problem(_ reason: String) -> TLSFileError {
                let name = id.map { " (kid \(JSONString.quoted(String($0.unicodeScalars.prefix(TLSLimits.quotedCharacters)))))" } ?? ""
                return TLSFileError(.malformed, path: path, reason: "key \(index + 1)\(name): \(reason)")
            }
            do throws(CertificateError) {
                guard let key = try WebKey(entry)?.tokenKey() else { continue }
                if let id, keys.contains(where: { $0.fits(id: id, key.algorithms[0]) && $0.id != nil }) {
                    throw CertificateError("another key of that kind has this kid, too; expected one for each")
                }
                keys.append(key)
            } catch { throw problem(error.reason) }
        }
        guard !keys.isEmpty else {
            throw TLSFileError(
                .noKey, path: path, reason: "none of its \(Plural.count(entries.count, "key")) is for signatures that are taken here",
                advice: "expected kty RSA, EC with crv P-256 or P-384, OKP with crv Ed25519, or oct")
        }
        return keys
    }
}

/// One JSON Web Key (RFC 7517, RFC 7518, RFC 8037).
private struct WebKey {
    private let value: JSONValue
    private let type: String
    private let algorithm: SignatureAlgorithm?

    /// Nil for a key that is not relevant here: for encryption, or of an unsupported kind. Issuers' key sets contain such keys as well.
    init?(_ value: JSONValue) throws(CertificateError) {
        guard value.asObject != nil, let type = value["kty"]?.asString else { throw CertificateError("expected an object with kty") }
        if let id = value["kid"], id.asString == nil { throw CertificateError("kid is not a string") }
        (self.value, self.type) = (value, type)
        if let use = value["use"] {
            guard let use = use.asString else { throw CertificateError("use is not a string; expected sig") }
            if use != "sig" { return nil }
        }
        if let operations = value["key_ops"] {
            guard let operations = operations.asArray else { throw CertificateError("key_ops is not an array; expected [\"verify\"]") }
            if !operations.contains(where: { $0.asString == "verify" }) { return nil }
        }
        if let name = value["alg"] {
            guard let name = name.asString else { throw CertificateError("alg is not a string") }
            guard let known = SignatureAlgorithm(rawValue: name) else { return nil }
            algorithm = known
        } else {
            algorithm = nil
        }
    }

    /// Nil if this kind of key is not supported.
    func tokenKey() throws(CertificateError) -> TokenKey? {
        if type != "oct", value["d"] != nil {
            throw CertificateError("it has a private part (d), which only the issuer of tokens should have: take the private part out")
        }
        let key: SignatureKey
        switch type {
        case "RSA": key = try .rsa(modulus: bytes("n"), exponent: bytes("e"))
        case "EC":
            guard let curve = try SignatureKey.Curve(rawValue: text("crv")) else { return nil }
            key = try .ec(curve, x: bytes("x"), y: bytes("y"))
        case "OKP":
            guard try text("crv") == "Ed25519" else { return nil }
            key = try .ed25519(bytes("x"))
        case "oct": key = try .secret(bytes("k"))
        default: return nil
        }
        guard let algorithm else { return TokenKey(id: value["kid"]?.asString, key: key, algorithms: key.algorithms) }
        guard key.algorithms.contains(algorithm) else {
            let expected = key.algorithms.map(\.rawValue).joined(separator: ", ")
            throw CertificateError("alg is \(algorithm.rawValue), which does not fit kty \(type); expected \(expected)")
        }
        return TokenKey(id: value["kid"]?.asString, key: key, algorithms: [algorithm])
    }

    private func text(_ name: String) throws(CertificateError) -> String {
        guard let text = value[name]?.asString else { throw CertificateError("expected \(name) as a text, for kty \(type)") }
        return text
    }

    private func bytes(_ name: String) throws(CertificateError) -> [UInt8] {
        guard let bytes = Base64.decodeURL(try text(name)), !bytes.isEmpty else {
            throw CertificateError("\(name) is not base64url; expected it without padding, for kty \(type)")
        }
        return bytes
    }
}
