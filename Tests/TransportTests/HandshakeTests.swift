import Encodings
import HTTPServer
import Interfaces
import Testing

@testable import Transport

@Suite struct HandshakeTests {
    @Test func acceptKeyOfTheSpecification() {
        #expect(WebSocketHandshake.accept(forKey: "dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }

    private func headers(_ protocols: [String], connection: String = "Upgrade", upgrade: String = "websocket", version: String = "13", key: String = "dGhlIHNhbXBsZSBub25jZQ==") -> HeaderList {
        var headers: HeaderList = ["Connection": connection, "Upgrade": upgrade, "Sec-WebSocket-Version": version, "Sec-WebSocket-Key": key]
        for line in protocols { headers.add("sec-websocket-protocol", line) }
        return headers
    }

    private func check(_ headers: HeaderList, method: String = "GET") -> Result<WebSocketHandshake.Offer, WebSocketHandshake.Refusal> {
        WebSocketHandshake.check(method: method, headers: headers, speaking: Subprotocol.names)
    }

    @Test(arguments: [
        (["BLIP_3+CBMobile_3,BLIP_3+CBMobile_2"], "BLIP_3+CBMobile_3"), (["BLIP_3+CBMobile_2 , BLIP_3+CBMobile_3"], "BLIP_3+CBMobile_2"),
        (["BLIP_3+CBMobile_4,BLIP_3+CBMobile_3"], "BLIP_3+CBMobile_3"), (["BLIP_3+CBMobile_4", "BLIP_3+CBMobile_2"], "BLIP_3+CBMobile_2"),
        (["BLIP_3+CBMobile_4"], "BLIP_3+CBMobile_4"),
        (["SyncGatewaySession_x, BLIP_3+CBMobile_2"], "BLIP_3+CBMobile_2"),
    ])
    func theClientsOrderDecides(lines: [String], chosen: String) throws {
        #expect(try check(headers(lines)).get().selectedProtocol == chosen)
    }

    @Test(arguments: [[], ["BLIP_3+CBMobile_5"], ["BLIP_3"], ["blip_3+cbmobile_3"], [""]])
    func noCommonProtocolSaysWhatIsSpoken(lines: [String]) {
        guard case .failure(let refusal) = check(headers(lines)) else { return #expect(Bool(false), "accepted") }
        #expect(refusal.status == 400)
        #expect(refusal.reason.contains("BLIP_3+CBMobile_3, BLIP_3+CBMobile_2"))
    }

    @Test func listsInConnectionAndUpgradeAreTolerated() throws {
        _ = try check(headers(["BLIP_3+CBMobile_3"], connection: "keep-alive, upgrade", upgrade: "h2c, WebSocket")).get()
    }

    @Test func incompleteRequestsAreRefused() {
        let offers = ["BLIP_3+CBMobile_3"]
        #expect(throws: WebSocketHandshake.Refusal.self) { try check(headers(offers, connection: "close")).get() }
        #expect(throws: WebSocketHandshake.Refusal.self) { try check(headers(offers, upgrade: "h2c")).get() }
        #expect(throws: WebSocketHandshake.Refusal.self) { try check(headers(offers, version: "8")).get() }
        #expect(throws: WebSocketHandshake.Refusal.self) { try check(headers(offers, key: "c2hvcnQ=")).get() }
        #expect(throws: WebSocketHandshake.Refusal.self) { try check(headers(offers), method: "POST").get() }
    }

    @Test(arguments: [
        ("Basic dXNlcjpwYXNz", BasicCredentials(username: "user", password: "pass")), ("basic  dXNlcjpwOmE=", BasicCredentials(username: "user", password: "p:a")),
        ("Basic dXNlcg==", nil), ("Bearer dXNlcjpwYXNz", nil), ("Basic !!!", nil), ("Basic", nil),
    ] as [(String, BasicCredentials?)])
    func basicCredentials(value: String, expected: BasicCredentials?) {
        #expect(WebSocketHandshake.basicCredentials(["Authorization": value]) == expected)
    }

    @Test(arguments: [
        ("Bearer a.b.c", "a.b.c"), ("bearer  a.b.c ", "a.b.c"), ("Basic dXNlcjpwYXNz", nil), ("Bearer", nil), ("Bearera.b.c", nil), ("", nil),
    ] as [(String, String?)])
    func bearerToken(value: String, expected: String?) {
        #expect(WebSocketHandshake.bearerToken(["Authorization": value]) == expected)
        #expect(WebSocketHandshake.bearerToken([:]) == nil)
    }

    @Test(arguments: [
        ("/db/_blipsync", "db"), ("/base/path/my%20db/_blipsync", "my db"), ("/db/_blipsync/", nil), ("/_blipsync", nil), ("/db/x_blipsync", nil), ("/db/doc", nil),
    ] as [(String, String?)])
    func databaseOfThePath(path: String, database: String?) {
        #expect(RequestTarget.replicationDatabase(path: path).flatMap { PercentEncoding.decode($0) } == database)
    }

    @Test(arguments: [
        (#"{"error":"Unauthorized","reason":"Invalid login"}"#, "Invalid login"), (#"{"x":{"reason":"inner"},"reason":"a \"b\" \u00e4"}"#, "a \"b\" ä"),
        (#"{"reason":7}"#, nil), (#"["reason","x"]"#, nil), (#"{"reason":"cut"#, nil), ("", nil), (#"{"a":"reason","b":"x"}"#, nil),
    ] as [(String, String?)])
    func reasonOfAnErrorBody(body: String, reason: String?) {
        #expect(ErrorBody.string(forKey: "reason", in: Array(body.utf8)) == reason)
    }

    @Test(arguments: [
        ("ws://h/db", "/db/_blipsync", 80, "h"), ("wss://h.example:4984/base/db/", "/base/db/_blipsync", 4984, "h.example:4984"), ("ws://[::1]:4984/db/_blipsync", "/db/_blipsync", 4984, "[::1]:4984"),
        ("WSS://h/db?client=cbl2", "/db/_blipsync?client=cbl2", 443, "h"),
    ])
    func urls(text: String, target: String, port: Int, authority: String) throws {
        let url = try EndpointURL(text)
        #expect(url.replicationTarget == target)
        #expect(url.port == port)
        #expect(url.authority == authority)
    }

    @Test(arguments: ["", "h/db", "ftp://h/db", "ws://", "ws:///db", "ws://u:p@h/db", "ws://h:0/db", "ws://h:99999/db", "ws://[::1/db", "ws://h/d b", "ws://h\r\n/db"])
    func wrongURLs(text: String) {
        #expect(throws: (any Error).self) { try EndpointURL(text) }
    }
}
