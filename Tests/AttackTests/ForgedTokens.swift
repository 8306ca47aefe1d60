import Digests
import Encodings
import Glibc
import TestSupport
import Testing

extension Attack {
    /// JSON Web Tokens without a valid signature. Each comes from an address of its own, so that it is really checked, while a client with a valid token is served.
    static let tokens: [Attack] = [
        Attack(
            testDescription: "1,000 forged tokens", bounds: Bounds(milliseconds: 4_000, perRequest: 6, memory: 48 << 20),
            listener: "authenticator: { plugin: password-file, params: { file: users.txt }, jwt: { keys: issuer.json } }",
            furnish: { folder in
                try folder.copy("\(NightjarExecutable.package())/plugins/password-file.lua", to: "plugins/password-file.lua")
                try folder.write("users.txt", "companion:\(try await NightjarExecutable.run("password", folder: folder.path, input: .text("secret\n")).output)")
                try folder.write("issuer.json", try issuer.get().webKeys())
            },
            login: ("companion", "secret")
        ) { hub in
            let good = try issuer.get().token(claims())
            let forged = try forged()
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for lane in 0..<20 {
                    tasks.addTask {
                        for number in stride(from: lane, to: forged.count, by: 20) {
                            let status = try await status(hub, forged[number], from: "127.1.\(number / 200).\(number % 200 + 1)")
                            #expect(status == 401, "\(status): \(forged[number].prefix(200))")
                        }
                    }
                }
                for _ in 0..<20 {
                    let status = try await status(hub, good)
                    #expect(status == 200)
                }
                try await tasks.waitForAll()
            }
            return Sent(requests: forged.count + 20, bytes: forged.reduce(0) { $0 + $1.utf8.count })
        } check: { hub in
            let status = try await status(hub, issuer.get().token(claims("\"jti\":\"another\"")))
            #expect(status == 200)
        },
    ]

    private static let issuer = Result { try TokenSigner(.p256) }

    private static func claims(_ more: String = "\"x\":0") -> String { "{\"sub\":\"ada\",\"exp\":\(time(nil) + 600),\(more)}" }

    private static func status(_ hub: AgentProcess, _ token: String, from address: String? = nil) async throws -> Int {
        try await HTTPProbe.tcp(port: try hub.port("edge"), from: address).get("/main", headers: [("Authorization", "Bearer \(token)")]).status
    }

    /// 200 tokens of each kind: a wrong signature, a wrong signature over kilobytes of claims, a deeply nested header, no algorithm, and the public key used as a secret.
    private static func forged() throws -> [String] {
        let (issuer, mallory) = (try issuer.get(), try TokenSigner(.p256))
        let pem = Array(try issuer.pem().utf8)
        let deep = String(repeating: "[", count: 2_500) + String(repeating: "]", count: 2_500)
        return try (0..<200).flatMap { number in
            let claims = claims("\"n\":\(number)")
            let confused = "\(Base64.encodeURL(Array("{\"alg\":\"HS256\",\"kid\":\"\(issuer.id)\"}".utf8))).\(Base64.encodeURL(Array(claims.utf8)))"
            return [
                try mallory.token(claims),
                try mallory.token(self.claims("\"n\":[\(Array(repeating: "{}", count: 1_800).joined(separator: ",")),\(number)]")),
                try mallory.token(claims, header: "{\"alg\":\"ES256\",\"x\":\(deep)}"),
                "\(Base64.encodeURL(Array("{\"alg\":\"none\"}".utf8))).\(Base64.encodeURL(Array(claims.utf8))).",
                "\(confused).\(Base64.encodeURL(hmacSHA256(key: pem, message: Array(confused.utf8))))",
            ]
        }
    }
}
