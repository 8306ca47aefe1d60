import AgentConfiguration
import Testing

/// `authenticator: { jwt: … }` of a listener.
@Suite("Settings of JSON Web Tokens")
struct TokenSettingsTests {
    private static let secret = String(repeating: "s3cret", count: 6)

    private static func text(_ authenticator: String, _ more: String = "") -> String {
        "databases: { main: {} }\nlisteners:\n  - name: edge\n    databases: [ main ]\n    authenticator: \(authenticator)\n    \(more)\n"
    }

    @Test func allKeys() throws {
        let jwt = """
            { jwt: { keys: issuer.json, secret: "${SECRET}", algorithms: [ RS256, EdDSA, HS256 ], issuer: "https://id.example", audience: nightjar, required_claims: [ iat ],
                user_claim: name, channels_claim: c, roles_claim: r.s, collections_claim: t, read_only_claim: u } }
            """
        let settings = try settings(Self.text(jwt), environment: ["SECRET": Self.secret])
        let listener = try #require(settings.listeners.first)
        let tokens = try #require(listener.tokens)
        #expect(listener.authenticator == nil)
        #expect(tokens.keys?.value == "/etc/nightjar/issuer.json" && tokens.secret?.value == Secret(Self.secret))
        #expect(tokens.algorithms.map(\.value) == [.rs256, .edDSA, .hs256] && tokens.issuer?.value == "https://id.example" && tokens.audience.map(\.value) == ["nightjar"])
        #expect(tokens.requiredClaims.map(\.value) == ["iat"] && tokens.userClaim.value == "name" && tokens.readOnlyClaim.value == "u")
        #expect([tokens.channelsClaim, tokens.rolesClaim, tokens.collectionsClaim].map { $0?.value } == ["c", "r.s", "t"])
        #expect(settings.secretTexts == [Self.secret])
    }

    @Test func defaultsAndAPluginBeside() throws {
        let listener = try #require(try settings(Self.text("{ plugin: password-file, params: { file: users.txt }, jwt: { keys: /k.pem, audience: [ a, b ] } }")).listeners.first)
        #expect(listener.authenticator?.plugin.value == "password-file" && listener.authenticator?.params?["file"]?.scalar?.text == "users.txt")
        let tokens = try #require(listener.tokens)
        #expect(tokens.userClaim.value == "sub" && tokens.readOnlyClaim.value == "read_only" && tokens.audience.map(\.value) == ["a", "b"])
        #expect(tokens.algorithms.isEmpty && tokens.secret == nil && tokens.channelsClaim == nil)
        let same = try #require(try settings(Self.text("{ jwt: { audience: [ a, b ], keys: /k.pem }, params: { file: users.txt }, plugin: password-file }")).listeners.first)
        #expect(listener.authentication == same.authentication)
        let other = try #require(try settings(Self.text("{ plugin: password-file, params: { file: users.txt }, jwt: { keys: /k.pem, audience: a } }")).listeners.first)
        #expect(listener.authentication != other.authentication)
    }

    @Test(arguments: [
        ("{}", "expected a \"plugin\" or \"jwt\", or both"), ("{ params: { a: b } }", "\"params\" needs a \"plugin\""), ("{ jwt: {} }", "nothing verifies the tokens"),
        ("{ jwt: { secret: tiny } }", "at least 32 bytes (RFC 7518), found one of 4"), ("{ jwt: { keys: k, algorithms: [ none ] } }", "RS256"),
        ("{ jwt: { keys: k, algorithms: [] } }", "at least 1"), ("{ jwt: { keys: k, audience: [] } }", "at least 1"), ("{ jwt: { keys: k, audiences: a } }", "unknown key \"audiences\""),
        ("{ jwt: { secret: \(secret), algorithms: [ RS256 ] } }", "the secret is for HS256"), ("{ plugin: p, shadow: q }", "unknown key \"shadow\""), ("[ p ]", "a mapping with the keys plugin, params, jwt"),
        ("jwt: k", "mapping values"),
    ])
    func wrong(_ authenticator: String, _ words: String) {
        let found = problems(Self.text(authenticator))
        #expect(found.count == 1 && found.first?.message.contains(words) == true, "\(found)")
        #expect(!"\(found)".contains("tiny") && !"\(found)".contains(Self.secret), "\(found)")
    }

    @Test func anEndpointHasNoTokens() {
        let found = problems("databases: { main: {} }\nlisteners: [ { name: edge, databases: [ main ], endpoint: \"unix:a\", authenticator: { jwt: { keys: k } } } ]\n")
        #expect(found.map(\.message).contains { $0.contains("\"jwt\" applies to listeners on a port only") }, "\(found)")
    }

    @Test func tokensInClearTextAreWarnedOf() throws {
        let advice = try settings(Self.text("{ jwt: { keys: k } }", "disable_tls: true")).advice(plugins: nil)
        #expect(advice.contains { $0.message.contains("peers send their tokens in clear text") }, "\(advice)")
    }

    /// A bundle for somebody else has no secret in it.
    @Test func theSecretIsNotShown() throws {
        let text = Self.text("{ jwt: { keys: k, secret: \(Self.secret), issuer: plant } }")
        let shown = try RedactedConfiguration.read(Array(text.utf8), file: "nightjar.yaml", folder: "/etc/nightjar", environment: [:])
        #expect(!shown.text.contains(Self.secret) && shown.text.contains("plant") && shown.secrets.contains(Self.secret), "\(shown.text)")
    }
}
