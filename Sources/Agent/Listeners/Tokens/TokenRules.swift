import AgentConfiguration
import Documents
import Interfaces

/// The claims that a token must have, and what they say about its bearer.
struct TokenRules: Sendable {
    /// `jwt_skew`: seconds by which the issuer's clock and this one may differ.
    static let skew: Int64 = 60

    let settings: TokenSettings

    /// - Parameter moment: the time in seconds since 1970, and why it differs from the clock.
    /// - Returns: the principal, and when the token stops being accepted.
    func bearer(_ claims: JSONObject, at moment: (seconds: Int64, doubt: String?)) throws(TokenProblem) -> (principal: Principal, end: Int64) {
        let (now, doubt) = (moment.seconds, moment.doubt.map { "; \($0)" } ?? "")
        guard let expiry = try instant("exp", claims) else { throw Self.problem("it has no exp, so it would never expire") }
        let end = expiry + Self.skew
        guard now < end else { throw Self.problem("it expired at \(Timestamp.format(expiry))\(doubt)") }
        if let start = try instant("nbf", claims), now < start - Self.skew { throw Self.problem("it is not valid before \(Timestamp.format(start))\(doubt)") }
        if let issuer = settings.issuer {
            guard let found = claims["iss"]?.asString, found.utf8.elementsEqual(issuer.value.utf8) else {
                throw Self.problem("its issuer (iss) is \(Self.shown(claims["iss"])); expected \(WebToken.shown(issuer.value))")
            }
        }
        try checkAudience(claims)
        for claim in settings.requiredClaims where value(claim.value, claims) == nil { throw Self.problem("it has no claim \(claim.value)") }
        guard let name = value(settings.userClaim.value, claims)?.asString, !name.isEmpty, name.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
            throw Self.problem("its claim \(settings.userClaim.value) is not a user name: expected a string that is not empty, without control characters")
        }
        let isReadOnly = value(settings.readOnlyClaim.value, claims)
        if let isReadOnly, isReadOnly.asBool == nil { throw Self.problem("its claim \(settings.readOnlyClaim.value) is neither true nor false") }
        let principal = Principal(
            name: name, isReadOnly: isReadOnly?.asBool ?? false, channels: try names(settings.channelsClaim, claims), roles: try names(settings.rolesClaim, claims),
            collections: try names(settings.collectionsClaim, claims))
        return (principal, end)
    }

    /// A token with an audience must be refused unless it names us, even if no audience is configured here (RFC 7519 section 4.1.3).
    private func checkAudience(_ claims: JSONObject) throws(TokenProblem) {
        let found = claims["aud"]
        if settings.audience.isEmpty {
            guard let found else { return }
            throw Self.problem("it is for \(Self.shown(found)) (aud), and jwt has no audience: name it there if that is this service")
        }
        let all = found?.asArray ?? found.map { [$0] } ?? []
        guard all.contains(where: { one in settings.audience.contains { one.asString?.utf8.elementsEqual($0.value.utf8) == true } }) else {
            let expected = settings.audience.map { WebToken.shown($0.value) }.joined(separator: " or ")
            throw Self.problem("its audience (aud) is \(Self.shown(found)); expected \(expected)")
        }
    }

    // MARK: - Claims

    /// The claim with this name; otherwise the one at the end of a dotted path.
    private func value(_ name: String, _ claims: JSONObject) -> JSONValue? {
        if let found = claims[name] { return found.isNull ? nil : found }
        var found: JSONValue? = .object(claims)
        for part in name.split(separator: ".", omittingEmptySubsequences: false) { found = found?[String(part)] }
        return found?.isNull == true ? nil : found
    }

    /// Seconds since 1970; nil if there is no such claim.
    private func instant(_ name: String, _ claims: JSONObject) throws(TokenProblem) -> Int64? {
        guard let claim = claims[name] else { return nil }
        // A time beyond the year 9999 is an error, such as milliseconds.
        guard let seconds = claim.asDouble, (0...253_402_300_799).contains(seconds) else { throw Self.problem("its \(name) is not a number of seconds since 1970") }
        return Int64(seconds)
    }

    /// Nil if the settings do not ask for the claim; empty if they do and the token lacks it.
    private func names(_ claim: Located<String>?, _ claims: JSONObject) throws(TokenProblem) -> [String]? {
        guard let claim else { return nil }
        switch value(claim.value, claims) {
        case nil: return []
        case .string(let text): return text.split(separator: " ").map(String.init)
        case .array(let elements):
            let names = elements.compactMap(\.asString)
            if names.count == elements.count, !names.contains("") { return names }
        default: break
        }
        throw Self.problem("its claim \(claim.value) is neither a list of strings nor a string with spaces between them")
    }

    private static func problem(_ reason: String) -> TokenProblem { TokenProblem(reason, isSigned: true) }

    private static func shown(_ claim: JSONValue?) -> String { claim.map { $0.asString.map { WebToken.shown($0) } ?? WebToken.shown($0.text) } ?? "missing" }
}
