import AgentConfiguration
import Digests
import Encodings
import Environment
import Glibc
import Interfaces
import Logging
import TLS
import TestSupport
import Testing

@testable import Agent

func hmac(_ key: [UInt8], _ message: [UInt8]) -> [UInt8] { hmacSHA256(key: key, message: message) }

func chmod600(_ path: String) -> Bool { chmod(path, 0o600) == 0 }

/// Files with the keys of tokens.
@Suite("Keys of JSON Web Tokens")
struct TokenKeyTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func failure(_ contents: String, mode: mode_t = 0o600) throws -> TLSFileError? {
        let path = try folder.write("keys", contents)
        #expect(chmod(path, mode) == 0)
        do throws(TLSFileError) { _ = try TokenKey.read(path) } catch { return error }
        return nil
    }

    private func web(_ members: String) -> String { "{\"keys\":[{\(members)}]}" }

    private static let numbers = (
        rsa1024: Base64.encodeURL([0xC1] + [UInt8](repeating: 0x35, count: 127)), rsa2048: Base64.encodeURL([0xC1] + [UInt8](repeating: 0x35, count: 255)),
        of32: Base64.encodeURL([UInt8](repeating: 0x11, count: 32))
    )

    @Test("an error names the file, the key, and what was expected")
    func errors() throws {
        let of32 = Self.numbers.of32
        let all: [(contents: String, words: [String])] = [
            ("", ["neither JSON nor PEM text", "-----BEGIN PUBLIC KEY-----"]), ("{", ["is not JSON", "{\"keys\": [ … ]}"]), ("{}", ["without an array \"keys\""]), ("{\"keys\":[]}", ["none of its 0 keys"]),
            ("{\"keys\":[7]}", ["key 1: expected an object with kty"]), (web("\"kty\":\"RSA\",\"kid\":\"old\",\"n\":\"\(Self.numbers.rsa1024)\",\"e\":\"AQAB\""), ["key 1 (kid \"old\")", "1024 bits", "2048 to 8192"]),
            (web("\"kty\":\"RSA\",\"n\":\"\(Self.numbers.rsa2048)\",\"e\":\"AQ\""), ["key 1", "an odd number of at least 3"]), (web("\"kty\":\"RSA\",\"n\":\"a+b/\",\"e\":\"AQAB\""), ["n is not base64url"]),
            (web("\"kty\":\"RSA\",\"n\":\"\(Self.numbers.rsa2048)\""), ["expected e as a text"]), (web("\"kty\":\"RSA\",\"n\":\"\(Self.numbers.rsa2048)\",\"e\":\"AQAB\",\"d\":\"AQAB\""), ["private part (d)"]),
            (web("\"kty\":\"RSA\",\"n\":\"\(Self.numbers.rsa2048)\",\"e\":\"AQAB\",\"alg\":\"ES256\""), ["alg is ES256", "expected RS256, RS384, RS512, PS256"]),
            (web("\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"\(of32)\",\"y\":\"\(of32)\""), ["key 1", "not a public key"]), (web("\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"\(of32)\",\"y\":\"\(of32)\""), ["expected 48 of P-384"]),
            (web("\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\""), ["3 bytes; expected the 32"]), (web("\"kty\":\"oct\",\"k\":\"AAAA\""), ["a secret of 3 bytes; expected at least 32"]),
            (web("\"kty\":\"oct\",\"k\":\"\(of32)\",\"use\":\"enc\""), ["none of its 1 key is for signatures"]), (web("\"kty\":\"EC\",\"crv\":\"P-521\""), ["expected kty RSA, EC with crv P-256 or P-384, OKP with crv Ed25519, or oct"]),
            ("{\"keys\":[\((0...64).map { "{\"kty\":\"oct\",\"k\":\"\(of32)\",\"kid\":\"\($0)\"}" }.joined(separator: ","))]}", ["65 keys", "more than jwt_keys = 64"]),
            ("{\"keys\":[{\"kty\":\"oct\",\"k\":\"\(of32)\",\"kid\":\"a\"},{\"kty\":\"oct\",\"k\":\"\(of32)\",\"kid\":\"a\"}]}", ["key 2 (kid \"a\")", "this kid, too"]),
            (web("\"kty\":\"oct\",\"k\":\"\(of32)\",\"k\":\"\(of32)\""), ["is not JSON", "twice"]), ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", ["key 1 of the file is not a public key"]),
        ]
        for (contents, words) in all {
            let found = try #require(try failure(contents), "\(contents)")
            for word in [folder.path("keys")] + words { #expect("\(found)".contains(word), "\(word) in: \(found)") }
        }
    }

    @Test("a private key in PEM is refused, and a missing file is named")
    func privateKey() throws {
        let key = try PrivateKey.makeEd25519().writePEM().withBytes { String(decoding: $0, as: UTF8.self) }
        #expect(try failure(key)?.description.contains("is a private key, which only the issuer of tokens should have") == true)
        #expect(throws: TLSFileError.self) { try TokenKey.read(folder.path("none")) }
    }

    @Test("keys that fit none of the accepted algorithms are refused, by the agent and by a check")
    func algorithms() throws {
        let signer = try TokenSigner(.p256)
        var settings = TokenSettings()
        let path = try folder.write("keys", signer.webKeys())
        settings.keys = Located(path)
        settings.algorithms = [Located(.rs256), Located(.es256)]
        _ = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime())
        settings.algorithms = [Located(.rs256), Located(.hs256)]
        let words = "its keys are for ES256, and \"algorithms\" accepts RS256, HS256 only"
        do {
            _ = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime())
            Issue.record("it was taken")
        } catch { #expect("\(error)".contains(words), "\(error)") }
        do throws(TLSFileError) {
            _ = try TokenKey.read(path, taking: settings.signatureAlgorithms)
            Issue.record("it was taken")
        } catch { #expect(error.reason == words) }
    }

    @Test("keys that are for something else are passed over; a secret is for its owner's eyes")
    func kinds() throws {
        let signer = try TokenSigner(.p256)
        let others = "{\"kty\":\"RSA\",\"use\":\"enc\",\"kid\":\"e\"},{\"kty\":\"RSA\",\"alg\":\"RSA-OAEP\"},{\"kty\":\"AKP\"},{\"kty\":\"EC\",\"crv\":\"secp256k1\"},{\"kty\":\"EC\",\"key_ops\":[\"deriveKey\"]}"
        let path = try folder.write("keys", "\n {\"keys\":[\(others),\(try signer.webKey("\"key_ops\":[\"verify\"]"))]}")
        #expect(try TokenKey.read(path).map(\.id) == ["key-1"])
        try folder.write("keys", try signer.webKey())
        #expect(try TokenKey.read(path).map { $0.algorithms.map(\.rawValue) } == [["ES256"]])
        let secret = try TokenSigner(.secret).webKeys()
        #expect(try failure(secret) == nil)
        #expect(try failure(secret, mode: 0o644)?.kind == .loosePermissions)
        #expect(try failure(signer.webKeys(), mode: 0o644) == nil)
    }

    @Test("a wrong token costs one verification if its kid names a key, and otherwise one by each key that has no kid and is for its algorithm")
    func candidates() throws {
        let path = try folder.write("keys", "{\"keys\":[\(try (0..<6).map { try TokenSigner(.ed25519, id: "\($0)").webKey() }.joined(separator: ",")),\(try TokenSigner(.p256, id: "3").webKey())]}")
        let named = try TokenKey.read(path)
        try folder.write("keys", try TokenSigner(.ed25519).pem() + TokenSigner(.p256).pem())
        let all = named + (try TokenKey.read(path))
        func tried(_ id: String?, _ algorithm: SignatureAlgorithm, _ keys: [TokenKey]) -> [String] { TokenKey.candidates(keys, id: id, algorithm).map { $0.id ?? "-" } }
        #expect(tried("3", .edDSA, all) == ["3"] && tried("3", .es256, all) == ["3"])
        #expect(tried("5", .es256, all) == ["-"] && tried("unknown", .edDSA, all) == ["-"])
        #expect(tried("unknown", .edDSA, named) == [] && tried("3", .rs256, all) == [])
        #expect(tried(nil, .edDSA, all) == ["0", "1", "2", "3", "4", "5", "-"] && tried(nil, .es256, all) == ["3", "-"])
    }

    @Test("a token without a kid is tried with so many keys in the order of the file, and its refusal names the limit")
    func tried() throws {
        let most = TokenKey.Limits.tried
        let signers = try (0...most).map { try TokenSigner(.ed25519, id: "\($0)") }
        let path = try folder.write("keys", "{\"keys\":[\(try signers.map { try $0.webKey() }.joined(separator: ","))]}")
        var keys = try TokenKey.read(path)
        let claims = "{\"sub\":\"ada\",\"exp\":9999999999}"
        // The kid in a token's header is its signer's.
        func refusal(_ signer: TokenSigner, of keys: [TokenKey]) throws -> String? {
            let token = try signer.token(claims)
            do throws(TokenProblem) { _ = try WebToken(verifying: token, by: keys, algorithms: []) } catch { return error.reason }
            return nil
        }
        #expect(try refusal(signers[most], of: keys) == nil)
        for index in keys.indices { keys[index].id = nil }
        #expect(try refusal(signers[0], of: keys) == nil && refusal(signers[most - 1], of: keys) == nil)
        let words = "its signature is by none of the first 8 of 9 keys for EdDSA, and it is tried with no more than jwt_keys_tried = 8: have the issuer write the kid"
        #expect(try refusal(signers[most], of: keys)?.hasPrefix(words) == true)
        #expect(try refusal(signers[most], of: Array(keys.dropLast())) == "its signature is wrong")
        #expect(try refusal(signers[most], of: Array(keys.dropFirst())) == nil)
    }

    @Test("a check tells of keys that are never tried, and not of those that a kid names")
    func untried() throws {
        let most = TokenKey.Limits.tried
        let named = try TokenKey.read(folder.write("keys", "{\"keys\":[\(try (0...most).map { try TokenSigner(.p256, id: "\($0)").webKey() }.joined(separator: ","))]}"))
        let nameless = try TokenKey.read(folder.write("keys", try (0...most).map { _ in try TokenSigner(.p256).pem() }.joined()))
        #expect(nameless.count == most + 1)
        #expect(TokenKey.untried(named, taking: [], hasSecret: false) == nil)
        #expect(TokenKey.untried(Array(nameless.dropFirst()), taking: [], hasSecret: true) == nil)
        #expect(TokenKey.untried(nameless, taking: [.rs256], hasSecret: false) == nil)
        let told = TokenKey.untried(named + nameless, taking: [], hasSecret: false)
        #expect(told?.hasPrefix("9 keys without a kid are for ES256, and a token is tried with the first 8 of them (jwt_keys_tried)") == true, "\(told ?? "")")
    }

    @Test("a secret of the configuration is tried however many keys the file has")
    func secretBesideMany() throws {
        let text = String(repeating: "s3cret", count: 6)
        var settings = TokenSettings()
        settings.secret = Located(Secret(text))
        let others = try (0..<TokenKey.Limits.tried).map { try TokenSigner(.secret, id: "\($0)").webKey() }
        settings.keys = Located(try folder.write("keys", "{\"keys\":[\(others.joined(separator: ","))]}"))
        #expect(chmod600(folder.path("keys")))
        let signed = "\(Base64.encodeURL(Array("{\"alg\":\"HS256\"}".utf8))).\(Base64.encodeURL(Array("{\"sub\":\"ada\",\"exp\":9999999999}".utf8)))"
        let token = "\(signed).\(Base64.encodeURL(hmac(Array(text.utf8), Array(signed.utf8))))"
        let verdict = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime()).judge(token)
        guard case .accepted = verdict else {
            Issue.record("\(verdict)")
            return
        }
    }

    @Test("a changed file is read; a broken one changes nothing, and is reported")
    func reload() throws {
        let (old, new) = (try TokenSigner(.p256, id: "old"), try TokenSigner(.ed25519, id: "new"))
        var settings = TokenSettings()
        settings.keys = Located(try folder.write("keys", old.webKeys()))
        let authenticator = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime())
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let claims = "{\"sub\":\"ada\",\"exp\":9999999999}"
        func isTaken(_ signer: TokenSigner) throws -> Bool { if case .accepted = authenticator.judge(try signer.token(claims)) { true } else { false } }
        #expect(!authenticator.refresh(logger))
        #expect(try isTaken(old) && !isTaken(new))
        try folder.write("keys", "{\"keys\":[\(try old.webKey()),\(try new.webKey())]}")
        #expect(authenticator.refresh(logger))
        #expect(try isTaken(old) && isTaken(new))
        try folder.write("keys", "{\"keys\":[")
        #expect(!authenticator.refresh(logger))
        #expect(authenticator.failure?.description.contains("is not JSON") == true)
        #expect(try isTaken(old) && isTaken(new))
        try folder.write("keys", new.webKeys())
        #expect(authenticator.refresh(logger) && authenticator.failure == nil)
        #expect(try !isTaken(old) && isTaken(new))
    }

    @Test("a secret of the configuration verifies HS256, beside a file or alone")
    func secret() throws {
        let text = String(repeating: "s3cret", count: 6)
        let signer = try TokenSigner(.p256)
        var settings = TokenSettings()
        settings.secret = Located(Secret(text))
        let signed = "\(Base64.encodeURL(Array("{\"alg\":\"HS256\"}".utf8))).\(Base64.encodeURL(Array("{\"sub\":\"ada\",\"exp\":9999999999}".utf8)))"
        let token = "\(signed).\(Base64.encodeURL(hmac(Array(text.utf8), Array(signed.utf8))))"
        func judge(_ token: String) throws -> Bool {
            if case .accepted = try TokenAuthenticator.make(settings, listener: "edge", time: SystemTime()).judge(token) { true } else { false }
        }
        #expect(try judge(token) && !judge(signer.token("{\"sub\":\"ada\",\"exp\":9999999999}")))
        settings.keys = Located(try folder.write("keys", signer.pem()))
        #expect(try judge(token) && judge(signer.token("{\"sub\":\"ada\",\"exp\":9999999999}")))
    }
}
