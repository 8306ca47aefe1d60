import Documents
import Encodings
import Glibc
import TestSupport
import Testing

/// Logins by JSON Web Tokens, on a listener of a running agent.
@Suite("Logins by JSON Web Tokens")
struct WebTokenTests {
    private static let shipped = #filePath.split(separator: "/").dropLast(4).reduce("") { $0 + "/" + $1 } + "/plugins/password-file.lua"

    private func agent(_ signer: TokenSigner, more: String = "", beside: String = "", in folder: TemporaryFolder? = nil) async throws -> AgentProcess {
        let folder = try folder ?? TemporaryFolder()
        try folder.write("issuer.json", signer.webKeys())
        let jwt = "jwt: { keys: issuer.json, issuer: plant, audience: [ nightjar, other ]\(more) }"
        return try await AgentProcess.start(
            Configuration.hub(listener: "couchdb: true\n    authenticator: { \(beside)\(jwt) }", plugins: !beside.isEmpty), in: folder)
    }

    /// - Parameter seconds: from now until it has ended.
    private func token(_ signer: TokenSigner, _ user: String = "ada", for seconds: Int = 600, audience: String = "nightjar", _ more: String = "") throws -> String {
        try signer.token("{\"sub\":\"\(user)\",\"iss\":\"plant\",\"aud\":\"\(audience)\",\"exp\":\(time(nil) + seconds)\(more.isEmpty ? "" : ",\(more)")}")
    }

    private func bearer(_ token: String) -> [(String, String)] { [("Authorization", "Bearer \(token)")] }

    private func peer(_ agent: AgentProcess, _ token: String) async throws -> Peer {
        Peer(try await WebSocketProbe.connect(port: try agent.port("edge"), path: "/main/_blipsync", headers: bearer(token)))
    }

    private func status(_ agent: AgentProcess, _ token: String) async throws -> Int { try await CouchHTTP(agent).send("GET", "/main", nil, bearer(token)).status }

    @Test("check tells of keys that no token is tried with, at the place that names their file")
    func manyKeys() async throws {
        let folder = try TemporaryFolder()
        let keys = try (0..<9).map { _ in try TokenSigner(.p256).pem() }
        try folder.write("nightjar.yaml", Configuration.hub(listener: "couchdb: true\n    authenticator: { jwt: { keys: issuer.pem } }"))
        for (count, isTold) in [(9, true), (8, false)] {
            try folder.write("issuer.pem", keys.prefix(count).joined())
            let check = try await NightjarExecutable.run("check", "--config", folder.path("nightjar.yaml"))
            #expect(check.status == 0 && check.errors.contains("issuer.pem: 9 keys without a kid are for ES256") == isTold, "\(count): \(check)")
            #expect(check.errors.contains("nightjar.yaml:") == isTold && check.errors.contains("jwt_keys_tried") == isTold, "\(count): \(check)")
        }
        #expect(try await NightjarExecutable.run("explain", "jwt_keys_tried").output.contains("the first 8 keys"))
    }

    @Test("a good token lets in by HTTP and by WebSocket, as the user that it names; another one does not, and the log says why")
    func logins() async throws {
        let signer = try TokenSigner(.p256)
        let agent = try await agent(signer)
        let http = try CouchHTTP(agent)
        let good = try token(signer)
        try await http.ok("PUT", "/main/one", "{}", status: 201, bearer(good))
        let session = try await http.ok("GET", "/_session", nil, bearer(good))
        #expect(session["userCtx"]?["name"] == "ada" && session["info"]?["authenticated"] == "jwt", "\(session.text)")
        try await peer(agent, good).push("two")

        let nobody = try await http.send("GET", "/main")
        #expect(nobody.status == 401 && nobody.header("WWW-Authenticate") == "Bearer realm=\"Nightjar\"", "\(nobody)")
        #expect(try await http.send("GET", "/main", nil, [("Authorization", "Basic YWRhOng=")]).status == 401)
        for (wrong, why) in [
            (try token(signer, for: -61), "it expired at"), (try token(signer, audience: "elsewhere"), "its audience (aud) is"),
            (try token(TokenSigner(.p256)), "its signature is wrong"), (try token(TokenSigner(.ed25519)), "there is no key for EdDSA"), ("nonsense", "it has 1 part"),
        ] {
            let answer = try await http.send("GET", "/main", nil, bearer(wrong))
            #expect(answer.status == 401 && answer.header("WWW-Authenticate")?.contains("invalid_token") == true, "\(why): \(answer)")
            let line = try await agent.process.line(containing: why, in: .errors)
            #expect(line.contains("login refused: the bearer token is not accepted: ") && !line.contains(wrong) || wrong == "nonsense", "\(line)")
            await #expect(throws: WebSocketProbe.Refused.self) { _ = try await peer(agent, wrong) }
        }
        // It opens no session, which would outlive it.
        let opened = try await http.send("POST", "/_session", "{\"name\":\"ada\",\"password\":\"x\"}", bearer(good))
        #expect(opened.status == 404 && opened.header("Set-Cookie") == nil, "\(opened)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("claims limit what the user may do")
    func rights() async throws {
        let signer = try TokenSigner(.ed25519)
        let agent = try await agent(signer, more: ", collections_claim: rights.collections")
        let all = "\"rights\":{\"collections\":[\"_default\"]}"
        let reader = try token(signer, "ben", "\(all),\"read_only\":true")
        let http = try CouchHTTP(agent)
        #expect(try await http.send("PUT", "/main/one", "{}", bearer(token(signer, "ada", all))).status == 201)
        #expect(try await http.send("PUT", "/main/two", "{}", bearer(reader)).status == 403)
        // One that names no collection has none.
        #expect(try await http.send("PUT", "/main/three", "{}", bearer(token(signer))).status != 201)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a connection and a feed end with their token, within seconds; those of longer ones go on")
    func end() async throws {
        let signer = try TokenSigner(.rsa)
        let agent = try await agent(signer)
        // 60 seconds are for clocks that differ.
        let short = try token(signer, for: -50)
        let (ada, bob) = (try await peer(agent, short), try await peer(agent, try token(signer, "bob")))
        try await ada.push("before")
        let target = "http://127.0.0.1:\(try agent.port("edge"))/main/_changes?feed=continuous&heartbeat=3600000"
        let feed = try Subprocess("/usr/bin/curl", ["-sS", "-N", "--noproxy", "*", "-H", "Authorization: Bearer \(short)", target])
        try await eventually("the feed is open") { feed.output.contains("\"id\":\"before\"") }
        #expect(try await ada.closeCode() == 4001)
        #expect(try await feed.wait().output.contains("last_seq"))
        _ = try await agent.process.line(containing: "a peer is disconnected: its token has ended", in: .errors)
        try await bob.push("after")
        #expect(try await status(agent, short) == 401)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a changed key file is read: users whose key has gone are disconnected, and a broken file changes nothing")
    func reload() async throws {
        let (old, new) = (try TokenSigner(.p256, id: "old"), try TokenSigner(.p384, id: "new"))
        let agent = try await agent(old)
        let (first, second) = (try token(old), try token(new, "bob"))
        let ada = try await peer(agent, first)
        #expect(try await status(agent, first) == 200)
        #expect(try await status(agent, second) == 401)
        try agent.folder.write("issuer.json", "{\"keys\":[\(try old.webKey()),\(try new.webKey())]}")
        _ = try await agent.process.line(containing: "tokens are now checked with the new keys", in: .errors)
        #expect(try await status(agent, second) == 200)
        try await ada.push("with both")
        try agent.folder.write("issuer.json", "{\"keys\":[")
        let entry = try await eventually("health tells of it") {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "tls_files_refused" }
        }
        #expect(entry["subject"] == "listener edge" && entry["text"]?.asString?.contains("issuer.json: is not JSON") == true, "\(entry.text)")
        try await ada.push("with a broken file")
        try agent.folder.write("issuer.json", new.webKeys())
        #expect(try await ada.closeCode() == 4001)
        #expect(try await status(agent, first) == 401)
        #expect(try await status(agent, second) == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a secret's file that becomes too short is reported by health until it is fixed, and the previous secret stays in force")
    func shortSecret() async throws {
        let folder = try TemporaryFolder()
        let good = String(repeating: "hunter-", count: 6)
        try folder.write("jwt.secret", good)
        let agent = try await AgentProcess.start(Configuration.hub(listener: "authenticator: { jwt: { secret: \"${file:jwt.secret}\" } }"), in: folder)
        @Sendable func refused() async throws -> JSONValue? {
            try await agent.admin.get("/health").json["attention"]?.asArray?.first { $0["kind"] == "tls_files_refused" }
        }
        for (wrong, why) in [("short", "a secret of 5 bytes; expected at least 32"), ("", "its file cannot be read, or is empty")] {
            try folder.write("jwt.secret", wrong)
            let entry = try await eventually("health tells of it") { try await refused() }
            #expect(entry["subject"] == "listener edge", "\(entry.text)")
            #expect(entry["text"]?.asString?.contains("authenticator.jwt.secret") == true && entry["text"]?.asString?.contains(why) == true, "\(entry.text)")
            try folder.write("jwt.secret", good)
            try await eventually("it is mended") { try await refused() == nil }
        }
        #expect(!agent.process.errors.contains("hunter"))
        #expect(try await agent.stop().status == 0)
    }

    @Test("tokens without a valid signature lock out neither the user that they name nor others at that address")
    func guesses() async throws {
        let (signer, mallory) = (try TokenSigner(.p256), try TokenSigner(.p256))
        let agent = try await agent(signer)
        let good = try token(signer)
        #expect(try await status(agent, good) == 200)
        var statuses: Set<Int> = []
        for number in 0..<24 { statuses.insert(try await status(agent, try token(mallory, for: 600 + number))) }
        // The last ones waited for a second each.
        #expect(statuses.isSubset(of: [401, 429]) && statuses.contains(401), "\(statuses)")
        #expect(try await status(agent, good) == 200)
        // Another token of the same user, which was not seen there before, waits no longer than that.
        #expect(try await status(agent, token(signer, for: 900)) == 200)
        #expect(try await agent.stop().status == 0)
    }

    @Test("a plugin beside it checks logins with a password")
    func beside() async throws {
        let folder = try TemporaryFolder()
        try folder.copy(Self.shipped, to: "plugins/password-file.lua")
        let made = try await Subprocess.run(try NightjarExecutable.path(), ["password"], folder: folder.path, input: .text("secret\n"))
        try folder.write("users.txt", "eve:\(made.output)")
        let signer = try TokenSigner(.ed25519)
        let agent = try await agent(signer, beside: "plugin: password-file, params: { file: users.txt }, ", in: folder)
        let http = try CouchHTTP(agent)
        let basic = ("Authorization", "Basic \(Base64.encode(Array("eve:secret".utf8)))")
        #expect(try await http.ok("GET", "/_session", nil, [basic])["userCtx"]?["name"] == "eve")
        #expect(try await http.ok("GET", "/_session", nil, bearer(token(signer)))["userCtx"]?["name"] == "ada")
        let nobody = try await http.send("GET", "/main")
        #expect(nobody.status == 401 && Set(nobody.headers.filter { $0.name == "www-authenticate" }.map(\.value)) == ["Basic realm=\"Nightjar\"", "Bearer realm=\"Nightjar\""], "\(nobody)")
        #expect(try await agent.stop().status == 0)
    }

    @Test("check names the file, the key and what was expected")
    func check() async throws {
        let folder = try TemporaryFolder()
        try folder.write("issuer.json", "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k7\",\"x\":\"AAAA\",\"y\":\"AAAA\"}]}")
        try folder.write("nightjar.yaml", Configuration.hub(listener: "authenticator: { jwt: { keys: issuer.json } }"))
        func check() async throws -> Subprocess.Outcome {
            try await Subprocess.run(try NightjarExecutable.path(), ["check", "--config", folder.path("nightjar.yaml")], folder: folder.path)
        }
        let wrong = try await check()
        #expect(wrong.status == 78, "\(wrong)")
        for words in ["nightjar.yaml:", "listener \"edge\" authenticator.jwt", folder.path("issuer.json"), "key 1 (kid \"k7\")", "expected 32 of P-256"] {
            #expect(wrong.errors.contains(words), "\(words): \(wrong)")
        }
        try folder.write("issuer.json", try TokenSigner(.p256).webKeys())
        #expect(try await check().status == 0)
    }
}
