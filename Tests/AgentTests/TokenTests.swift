import AgentConfiguration
import Encodings
import Environment
import Interfaces
import TestSupport
import Testing

@testable import Agent

/// A clock that stands still.
private struct StoppedClock: TimeSource {
    static let now: Int64 = 1_800_000_000

    func monotonicNanoseconds() -> UInt64 { 0 }
    func wallSeconds() -> Int64 { Self.now }
    func sleep(nanoseconds: UInt64) async throws {}
}

/// Which JSON Web Tokens a listener takes, and as whom.
@Suite("JSON Web Tokens")
struct TokenTests {
    private static let rsa = Result { try TokenSigner(.rsa, id: "rsa") }
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// Claims that are right by the settings of ``authenticator(_:change:)``.
    private static let claims = claims()

    private static func claims(exp: String = "\(StoppedClock.now + 600)", aud: String = "\"nightjar\"", iss: String = "\"plant\"", _ more: String = "") -> String {
        "{\"sub\":\"ada\",\"iss\":\(iss),\"aud\":\(aud),\"exp\":\(exp)\(more.isEmpty ? "" : ",\(more)")}"
    }

    private func authenticator(_ file: String, change: (inout TokenSettings) -> Void = { _ in }) throws -> TokenAuthenticator {
        var settings = TokenSettings()
        settings.keys = Located(try folder.write("keys", file))
        (settings.issuer, settings.audience) = (Located("plant"), [Located("nightjar")])
        change(&settings)
        #expect(chmod600(folder.path("keys")))
        return try .make(settings, listener: "edge", time: StoppedClock())
    }

    private func accepted(_ verdict: TokenAuthenticator.Verdict, sourceLocation: SourceLocation = #_sourceLocation) throws -> Principal {
        if case .refused(let problem) = verdict { Issue.record("\(problem)", sourceLocation: sourceLocation) }
        guard case .accepted(let principal, _) = verdict else { throw SupportError("refused") }
        return principal
    }

    private func refused(_ verdict: TokenAuthenticator.Verdict) -> TokenProblem? { if case .refused(let problem) = verdict { problem } else { nil } }

    // MARK: - Signatures

    @Test("each algorithm is verified by a key of its kind, from a JSON Web Key Set", arguments: [
        (TokenSigner.Kind.rsa, "RS256"), (.rsa, "RS384"), (.rsa, "RS512"), (.rsa, "PS256"), (.p256, "ES256"), (.p384, "ES384"), (.ed25519, "EdDSA"),
        (.secret, "HS256"),
    ])
    func algorithms(_ kind: TokenSigner.Kind, _ algorithm: String) throws {
        let (signer, other) = (try TokenSigner(kind), try TokenSigner(kind))
        let authenticator = try authenticator(signer.webKeys())
        for _ in 0..<8 {
            // Numbers of ECDSA begin with zeros now and then.
            #expect(try accepted(authenticator.judge(signer.token(Self.claims, algorithm: algorithm))) == Principal(name: "ada"))
        }
        #expect(try refused(authenticator.judge(other.token(Self.claims, algorithm: algorithm))) == TokenProblem("its signature is wrong"))
    }

    @Test("public keys come in PEM, too; they have no kid, and any kid is tried with them", arguments: [TokenSigner.Kind.rsa, .p256, .p384, .ed25519])
    func pem(_ kind: TokenSigner.Kind) throws {
        let (signer, next) = (try TokenSigner(kind), try TokenSigner(kind, id: "next"))
        let authenticator = try authenticator(signer.pem() + next.pem())
        for each in [signer, next] { #expect(try accepted(authenticator.judge(each.token(Self.claims))).name == "ada") }
        #expect(try refused(authenticator.judge(TokenSigner(kind).token(Self.claims))) != nil)
    }

    @Test("an algorithm is the key's, whatever a token says")
    func confusion() throws {
        let (signer, mallory) = (try Self.rsa.get(), try TokenSigner(.secret, id: "rsa"))
        let header = "{\"alg\":\"HS256\",\"kid\":\"rsa\"}"
        let signed = "\(Base64.encodeURL(Array(header.utf8))).\(Base64.encodeURL(Array(Self.claims.utf8)))"
        for file in [try signer.webKeys(), try signer.pem()] {
            let authenticator = try authenticator(file)
            // A public key as the secret of HS256.
            for secret in [file, try signer.pem(), String(try signer.pem().dropLast())] {
                let token = "\(signed).\(Base64.encodeURL(hmac(Array(secret.utf8), Array(signed.utf8))))"
                #expect(refused(authenticator.judge(token))?.reason.hasPrefix("there is no key for HS256") == true)
            }
            for name in ["none", "None", "HS512", "RS1", "", "ES256K"] {
                let header = Base64.encodeURL(Array("{\"alg\":\"\(name)\",\"kid\":\"rsa\"}".utf8))
                for signature in ["", "AA"] { #expect(refused(authenticator.judge("\(header).\(signed.split(separator: ".")[1]).\(signature)")) != nil) }
            }
            // A key that comes with the token is nobody's.
            let brought = try mallory.token(Self.claims, header: "{\"alg\":\"HS256\",\"kid\":\"rsa\",\"jwk\":\(try mallory.webKey()),\"jku\":\"https://evil.example/\"}")
            #expect(refused(authenticator.judge(brought)) != nil)
        }
        // Of one family of algorithms as well, where the file says which.
        let bound = try authenticator("{\"keys\":[\(try signer.webKey("\"alg\":\"RS256\",\"use\":\"sig\""))]}")
        #expect(try accepted(bound.judge(signer.token(Self.claims))).name == "ada")
        for other in ["RS512", "PS256"] { #expect(try refused(bound.judge(signer.token(Self.claims, algorithm: other)))?.reason.contains("no key for \(other)") == true) }
        let narrow = try authenticator(signer.webKeys()) { $0.algorithms = [Located(.ps256), Located(.edDSA)] }
        #expect(try accepted(narrow.judge(signer.token(Self.claims, algorithm: "PS256"))).name == "ada")
        #expect(try refused(narrow.judge(signer.token(Self.claims)))?.reason.contains("not among \"algorithms\"") == true)
    }

    @Test("what was changed on the way, or is not a token, is refused")
    func tampered() throws {
        let signer = try TokenSigner(.p256)
        let authenticator = try authenticator(signer.webKeys())
        let token = try signer.token(Self.claims)
        let parts = token.split(separator: ".").map(String.init)
        let admin = Base64.encodeURL(Array(Self.claims.replacing("ada", with: "eve").utf8))
        let signature = Base64.decodeURL(parts[2]) ?? []
        let flipped = Base64.encodeURL(signature.indices.map { signature[$0] ^ ($0 == 5 ? 1 : 0) })
        for wrong in [
            "\(parts[0]).\(admin).\(parts[2])", "\(parts[0]).\(parts[1]).\(flipped)", "\(parts[0]).\(parts[1]).", "\(parts[0]).\(parts[1])", "\(token).", "\(token)=", "\(token) ",
            "\(parts[0]).\(parts[1]).\(Base64.encodeURL(signature.dropLast()))", "\(parts[0]).\(parts[1]).\(Base64.encodeURL(signature + [0]))",
            "\(parts[0]).\(parts[1]).\(Base64.encodeURL([UInt8](repeating: 0, count: 64)))", "", ".", "..", "a.b.c", "\u{0}", "🐦.🐦.🐦", parts[0],
        ] {
            #expect(refused(authenticator.judge(wrong))?.isSigned == false, "\(wrong)")
        }
        #expect(try accepted(authenticator.judge(token)).name == "ada")
    }

    @Test("the header names the key; what it says beyond that has to be known")
    func header() throws {
        let (first, second) = (try TokenSigner(.ed25519, id: "a"), try TokenSigner(.ed25519, id: "b"))
        let authenticator = try authenticator("{\"keys\":[\(try first.webKey()),\(try second.webKey())]}")
        func judge(_ header: String) throws -> TokenAuthenticator.Verdict { authenticator.judge(try second.token(Self.claims, header: header)) }
        for right in ["\"kid\":\"b\"", "\"typ\":\"at+jwt\"", "\"typ\":\"JWT\",\"cty\":\"x\""] {
            #expect(try accepted(judge("{\"alg\":\"EdDSA\",\(right)}")).name == "ada", "\(right)")
        }
        #expect(try refused(judge("{\"alg\":\"EdDSA\",\"kid\":\"a\"}"))?.reason == "its signature is wrong")
        #expect(try refused(judge("{\"alg\":\"EdDSA\",\"kid\":\"c\"}"))?.reason == "there is no key for EdDSA with the kid \"c\"")
        for wrong in [
            "{\"alg\":\"EdDSA\",\"kid\":7}", "{\"alg\":\"EdDSA\",\"crit\":[\"exp\"],\"exp\":1}", "{\"alg\":\"EdDSA\",\"typ\":\"logout+jwt\"}", "{\"kid\":\"b\"}", "{\"alg\":7}",
            "{\"alg\":\"EdDSA\",\"alg\":\"EdDSA\"}", "[]", "\"EdDSA\"", "{\"alg\":\"EdDSA\"", "",
        ] { #expect(try refused(judge(wrong))?.isSigned == false, "\(wrong)") }
    }

    @Test("a token of more than 8 KiB is not looked at, and one with two equal claims is none")
    func bounds() throws {
        let signer = try TokenSigner(.ed25519)
        let authenticator = try authenticator(signer.webKeys())
        func token(_ filling: Int) throws -> String { try signer.token(Self.claims("\"x\":\"\(String(repeating: "x", count: filling))\"")) }
        #expect(try accepted(authenticator.judge(token(5000))).name == "ada")
        #expect(try refused(authenticator.judge(token(7000)))?.reason.contains("more than jwt_bytes = 8192") == true)
        for twice in ["\"sub\":\"eve\"", "\"exp\":9999999999", "\"x\":{\"y\":1,\"y\":2}"] {
            let problem = try refused(authenticator.judge(signer.token(Self.claims(twice))))
            #expect(problem?.reason.contains("twice") == true && problem?.isSigned == true, "\(twice)")
        }
        let deep = String(repeating: "[", count: 2000) + String(repeating: "]", count: 2000)
        #expect(try refused(authenticator.judge(signer.token(Self.claims("\"x\":\(deep)")))) != nil)
        #expect(try refused(authenticator.judge(signer.token("[]"))) != nil)
    }

    // MARK: - Claims

    @Test("a token has a time, an issuer and an audience", arguments: [
        (claims(exp: "\(StoppedClock.now - 59)"), nil), (claims(exp: "\(StoppedClock.now - 60)"), "it expired at"), (claims(exp: "\"soon\""), "exp is not a number"),
        (claims(exp: "\(StoppedClock.now)000"), "exp is not a number"), (claims(exp: "-1"), "exp is not a number"), (claims(exp: "1e9"), "it expired at"), (claims(exp: "\(StoppedClock.now).5"), nil),
        ("{\"sub\":\"ada\",\"iss\":\"plant\",\"aud\":\"nightjar\"}", "no exp"), (claims("\"nbf\":\(StoppedClock.now + 60)"), nil),
        (claims("\"nbf\":\(StoppedClock.now + 61)"), "it is not valid before"), (claims("\"nbf\":null"), "nbf is not a number"), (claims(aud: "[\"other\",\"nightjar\"]"), nil),
        (claims(aud: "\"Nightjar\""), "expected \"nightjar\""), (claims(aud: "[]"), "aud"), (claims(aud: "[7]"), "aud"), (claims(aud: "{\"nightjar\":1}"), "aud"),
        (claims(iss: "\"plant/\""), "expected \"plant\""), (claims(iss: "[\"plant\"]"), "iss"), ("{\"sub\":\"ada\",\"exp\":\(StoppedClock.now + 9),\"aud\":\"nightjar\"}", "iss) is missing"),
        ("{\"sub\":\"ada\",\"exp\":\(StoppedClock.now + 9),\"iss\":\"plant\"}", "aud) is missing"),
        (claims(exp: "\(StoppedClock.now + 9)").replacing("\"ada\"", with: "\"\""), "sub is not a user name"), (claims().replacing("\"ada\"", with: "\"a\\nb\""), "sub is not a user name"),
        (claims().replacing("\"ada\"", with: "7"), "sub is not a user name"), (claims().replacing("\"sub\"", with: "\"name\""), "sub is not a user name"), (claims("\"read_only\":\"no\""), "neither true nor false"),
    ] as [(String, String?)])
    func rules(_ claims: String, _ problem: String?) throws {
        let signer = try TokenSigner(.ed25519)
        let verdict = try authenticator(signer.webKeys()).judge(try signer.token(claims))
        guard let problem else { return #expect(try accepted(verdict).name == "ada") }
        let found = try #require(refused(verdict), "\(claims)")
        #expect(found.isSigned && found.reason.contains(problem), "\(found)")
    }

    @Test("a token for others is not accepted if no audience is configured; if it names no audience, only the issuer counts")
    func audience() throws {
        let signer = try TokenSigner(.ed25519)
        let authenticator = try authenticator(signer.webKeys()) { ($0.audience, $0.issuer) = ([], nil) }
        #expect(try refused(authenticator.judge(signer.token(Self.claims)))?.reason.contains("jwt has no audience") == true)
        #expect(try accepted(authenticator.judge(signer.token("{\"sub\":\"ada\",\"exp\":\(StoppedClock.now + 1)}"))).name == "ada")
    }

    @Test("claims say what the user may do")
    func principals() throws {
        let signer = try TokenSigner(.ed25519)
        let authenticator = try authenticator(signer.webKeys()) {
            ($0.userClaim, $0.channelsClaim, $0.rolesClaim) = (Located("preferred_username"), Located("https://plant.example/channels"), Located("realm_access.roles"))
            ($0.collectionsClaim, $0.readOnlyClaim, $0.requiredClaims) = (Located("collections"), Located("rights.reader"), [Located("iat"), Located("realm_access")])
        }
        func judge(_ more: String) throws -> TokenAuthenticator.Verdict { authenticator.judge(try signer.token(Self.claims("\"preferred_username\":\"Ada L\",\"iat\":1,\(more)"))) }
        let all = "\"https://plant.example/channels\":[\"a b\",\"c\"],\"realm_access\":{\"roles\":\"x y\"},\"collections\":[\"plant.readings\"],\"rights\":{\"reader\":true}"
        #expect(
            try accepted(judge(all))
                == Principal(name: "Ada L", isReadOnly: true, channels: ["a b", "c"], roles: ["x", "y"], collections: ["plant.readings"]))
        // What is not said is not given.
        #expect(try accepted(judge("\"realm_access\":{}")) == Principal(name: "Ada L", channels: [], roles: [], collections: []))
        #expect(try refused(judge("\"x\":1"))?.reason == "it has no claim realm_access")
        for wrong in ["\"collections\":[7]", "\"collections\":{}", "\"collections\":[\"\"]", "\"rights\":{\"reader\":1}"] {
            #expect(try refused(judge("\"realm_access\":{},\(wrong)"))?.isSigned == true, "\(wrong)")
        }
    }
}
