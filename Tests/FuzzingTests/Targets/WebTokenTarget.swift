import AgentConfiguration
import Digests
import Documents
import Encodings
import Interfaces
import TLS

@testable import Agent

extension FuzzTarget {
    /// JSON Web Tokens: as a stranger sends them (`t`), and any header and claims with a valid signature (`s`, with RS between them). A token counts only
    /// if a key of its algorithm has signed it, a refusal is one short line, and no login lasts longer than the claims say.
    static let webTokens = FuzzTarget("web-tokens", longestInput: 9_000) { bytes in
        guard let kind = bytes.first else { return }
        let rest = bytes.dropFirst()
        switch kind {
        case UInt8(ascii: "t"): try look(at: String(decoding: rest, as: UTF8.self))
        case UInt8(ascii: "s"):
            let parts = rest.split(separator: 0x1E, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
            guard parts.count == 2 else { return }
            let message = "\(Base64.encodeURL(parts[0])).\(Base64.encodeURL(parts[1]))"
            try look(at: "\(message).\(Base64.encodeURL(hmacSHA256(key: secret, message: Array(message.utf8))))")
        default: return
        }
    }

    private enum Verdict: Equatable {
        case accepted(Principal, end: Int64)
        case refused(TokenProblem)

        var isSigned: Bool { if case .refused(let problem) = self { problem.isSigned } else { true } }
    }

    private static func look(at text: String) throws {
        let keys = try keys.get()
        for rules in [open, strict] {
            let verdict = try judge(text, by: keys, rules)
            try hold(judge(text, by: keys, rules) == verdict, "another verdict when judged again")
            guard verdict.isSigned else { return }
            guard case .accepted(let principal, let end) = verdict else { continue }
            try hold(end > now && principal.name?.isEmpty == false, "\(principal) is let in until \(end)")
            try hold(judge(text, by: keys, rules, now: end - 1) == verdict, "the end comes before the end")
            guard case .refused = try judge(text, by: keys, rules, now: end) else { throw FuzzFinding(description: "nothing comes to an end at \(end)") }
        }
        try check(text, keys)
    }

    /// A token with a valid signature has exactly one reading.
    private static func check(_ text: String, _ keys: [TokenKey]) throws {
        let bytes = Array(text.utf8)
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { String(decoding: $0, as: UTF8.self) }
        try hold(parts.count == 3 && bytes.count <= WebToken.Limits.bytes, "\(parts.count) parts in \(bytes.count) bytes")
        for part in parts { try hold(Base64.decodeURL(part).map { Base64.encodeURL($0) } == part, "a part is taken in another spelling: \(part)") }
        guard let name = try JSONValue(parsing: Base64.decodeURL(parts[0]) ?? [])["alg"]?.asString, let algorithm = SignatureAlgorithm(rawValue: name) else {
            throw FuzzFinding(description: "signed by no algorithm")
        }
        try hold(judge(text, by: keys, algorithms: [algorithm], open).isSigned, "its own algorithm is not taken")
        let others = Set(SignatureAlgorithm.allCases).subtracting([algorithm])
        try hold(!judge(text, by: keys, algorithms: others, open).isSigned, "\(name) is taken where it is none of the algorithms")
        try hold(!judge(text, by: keys.filter { !$0.algorithms.contains(algorithm) }, open).isSigned, "\(name) is taken by a key for others")
        for at in stride(from: 0, to: bytes.count, by: max(1, bytes.count / 12)) where bytes[at] != UInt8(ascii: ".") {
            var changed = bytes
            changed[at] = bytes[at] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            try hold(!judge(String(decoding: changed, as: UTF8.self), by: keys, open).isSigned, "byte \(at) is not signed")
        }
    }

    private static func judge(
        _ text: String, by keys: [TokenKey], algorithms: Set<SignatureAlgorithm> = [], _ rules: TokenRules, now: Int64 = now
    ) throws -> Verdict {
        do throws(TokenProblem) {
            let token = try WebToken(verifying: text, by: keys, algorithms: algorithms)
            let (principal, end) = try rules.bearer(token.claims, at: (now, nil))
            return .accepted(principal, end: end)
        } catch {
            let isLine = error.reason.utf8.count <= 2_000 && error.reason.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            try hold(isLine, "no short line: \(error.reason)")
            return .refused(error)
        }
    }

    // MARK: - What tokens are judged by

    private static let now: Int64 = 1_800_000_000
    private static let secret = Array("what the issuer and the agent know".utf8)

    /// The private keys no longer exist: they signed some of the kept inputs.
    private static let keys = Result {
        func bytes(_ text: String) -> [UInt8] { Base64.decodeURL(text) ?? [] }
        let all: [(String?, SignatureKey)] = [
            ("ed", try .ed25519(bytes("64xQoVFJObQDL75f0F_A_xN4FUYM-qUVRVlc1zrWQMc"))),
            (nil, try .ec(.p256, x: bytes("5AUYi9X9tXAl2oEANVV6USy1wCAWe35kqlTHvDalyhc"), y: bytes("4gJuZHEbMZP0biU0RzA4zJMa45Yu1zU7veBWQ7PlMk0"))),
            ("rsa", try .rsa(modulus: bytes(modulus), exponent: [1, 0, 1])),
            ("shared", try .secret(secret)),
        ]
        return all.map { TokenKey(id: $0.0, key: $0.1, algorithms: $0.1.algorithms) }
    }
    private static let modulus = """
        5lNi4wwj9jp29fP7CCqoIPqfMeuJ51rYQAa7ckYOHuXX8j0jFj_t2hR4kt5uRNtUUAh362cQerqNW6qG8n5JdEz_gAzIc_dBVytBRPUcHwBeH7iH29JiucVtcVaXlShme3NgWBiHWQ3z\
        PibzBFdF_roe8hv-81BXiJQtz8JnTON_72XhTk1EN65XDTeL71OORXs3ndg6z8Tz7UQAkRS3ciAxtLD2tLASFZc50YP2tYfFbKH8yEUPo2Us81nda3767KneplpXzrT1DPsKOr62d2VC\
        O26wOu95hRditZ7aLMvNDUNQqMGpOUvsNwS-bgRG0JEPrf2y7-a48Trp2cVwCQ
        """

    private static let open = TokenRules(settings: TokenSettings())
    private static let strict: TokenRules = {
        var settings = TokenSettings()
        (settings.issuer, settings.audience) = (Located("plant"), [Located("nightjar"), Located("other")])
        (settings.userClaim, settings.readOnlyClaim, settings.requiredClaims) = (Located("user.name"), Located("rights.reader"), [Located("iat")])
        settings.channelsClaim = Located("https://plant.example/channels")
        (settings.rolesClaim, settings.collectionsClaim) = (Located("realm.roles"), Located("collections"))
        return TokenRules(settings: settings)
    }()
}
