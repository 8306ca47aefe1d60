import Encodings
import Environment
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Transport

/// The 101 answer to a request's text.
func switching(_ request: String, protocolName: String? = "BLIP_3+CBMobile_3", connection: String = "Upgrade", upgrade: String = "websocket", accept: String? = nil, extra: String = "") -> String {
    let key = request.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Key: ") }.map { String($0.dropFirst(19)) } ?? ""
    return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: \(upgrade)\r\nConnection: \(connection)\r\nSec-WebSocket-Accept: \(accept ?? WebSocketHandshake.accept(forKey: key))\r\n"
        + (protocolName.map { "Sec-WebSocket-Protocol: \($0)\r\n" } ?? "") + extra + "\r\n"
}

@Suite(.timeLimit(.minutes(10))) struct ClientTests {
    private func request(_ change: (inout WebSocketClient.Configuration) -> Void) async throws -> String {
        let (heads, continuation) = AsyncStream<String>.makeStream()
        let server = try await RawServer.start { socket in
            continuation.yield(try await socket.readHeader())
            try await socket.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        }
        let port = server.port
        _ = await connectionError(try client(port, change))
        await server.stop()
        for await head in heads { return head.replacing("127.0.0.1:\(port)", with: "HOST") }
        return ""
    }

    @Test func theRequestIsLiteCores() async throws {
        let head = try await request { configuration in
            configuration.userAgent = "nightjar/1.0"
            configuration.credentials = .basic(BasicCredentials(username: "user", password: "pass"))
            configuration.cookies = "SyncGatewaySession=abc"
            configuration.headers = ["X-Site": "plant-7"]
        }
        let lines = head.split(separator: "\r\n").map(String.init)
        #expect(
            lines.filter { !$0.hasPrefix("Sec-WebSocket-Key: ") && !$0.hasPrefix("X-Correlation-Id: ") } == [
                "GET /db/_blipsync HTTP/1.1", "Host: HOST", "User-Agent: nightjar/1.0", "Authorization: Basic dXNlcjpwYXNz", "Cookie: SyncGatewaySession=abc",
                "X-Site: plant-7", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: BLIP_3+CBMobile_3,BLIP_3+CBMobile_2,BLIP_3+CBMobile_4",
            ]
        )
        let key = lines.first { $0.hasPrefix("Sec-WebSocket-Key: ") }?.dropFirst(19) ?? ""
        #expect(Base64.decode(key)?.count == 16)
        let correlation = lines.last { $0.hasPrefix("X-Correlation-Id: ") }?.dropFirst(18) ?? ""
        #expect(correlation.count == 16 && CorrelationID.accepted(String(correlation)) != nil, "\(lines)")
    }

    @Test func aLoginAndAHeaderForItAreOneHeader() async throws {
        let head = try await request { configuration in
            configuration.credentials = .basic(BasicCredentials(username: "user", password: "pass"))
            configuration.headers = ["authorization": "Bearer other"]
        }
        #expect(head.split(separator: "\r\n").filter { $0.lowercased().hasPrefix("authorization:") } == ["Authorization: Basic dXNlcjpwYXNz"])
    }

    @Test func aLoginBecomesASessionAndTheSessionALoginAgain() async throws {
        let (heads, continuation) = AsyncStream<String>.makeStream()
        let server = try await RawServer.start { socket in
            let head = try await socket.readHeader()
            continuation.yield(head)
            if head.contains("Cookie: SyncGatewaySession=first") {
                try await socket.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
            } else {
                try await socket.send(switching(head, extra: "Set-Cookie: SyncGatewaySession=first; Path=/db; Max-Age=86400; HttpOnly\r\n"))
            }
            _ = try await socket.readToEnd()
        }
        let client = try client(server.port) { configuration in
            configuration.credentials = .basic(BasicCredentials(username: "user", password: "pass"))
            configuration.sessions = SessionCookies(time: SystemTime())
        }
        for _ in 0..<2 { (try await client.connect()).drop() }
        var seen: [String] = []
        for await head in heads {
            let lines = head.split(separator: "\r\n").filter { $0.hasPrefix("Authorization") || $0.hasPrefix("Cookie") }
            seen.append(lines.joined(separator: " "))
            if seen.count == 3 { break }
        }
        #expect(seen == ["Authorization: Basic dXNlcjpwYXNz", "Cookie: SyncGatewaySession=first", "Authorization: Basic dXNlcjpwYXNz"])
        await server.stop()
    }

    @Test func aHeaderCannotSmuggleAnother() async throws {
        let wrong = try client(1) { $0.headers = ["X-Site": "a\r\nX-Evil: b"] }
        #expect(await connectionError(wrong)?.message.contains("X-Site") == true)
    }

    @Test(arguments: [
        ("HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 52\r\n\r\n{\"error\":\"Unauthorized\",\"reason\":\"Invalid login :(\"}", .http, 401, "Invalid login :(", false),
        ("HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 33\r\n\r\nI only speak BLIP_3+X protocols\r\n", .http, 500, "I only speak BLIP_3+X protocols", true),
        ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", .http, 503, "Service Unavailable", true),
        ("HTTP/1.1 404 Not Found\r\n\r\nno length, until the end", .http, 404, "Not Found", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", .websocket, 1002, "200", false),
        ("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", .network, 12, "Location", false),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", .websocket, 1002, "not HTTP", false),
        ("", .network, 18, "before its HTTP answer", true),
        ("HTTP/1.1 401 Unautho", .network, 18, "before its HTTP answer", true),
    ] as [(String, ReplicationError.Domain, Int, String, Bool)])
    func refusalsBecomeErrorsOfTheField(answer: String, domain: ReplicationError.Domain, code: Int, text: String, isTransient: Bool) async throws {
        let server = try await RawServer.answering(answer)
        let error = await connectionError(try client(server.port))
        #expect(error?.domain == domain)
        #expect(error?.code == code)
        #expect(error?.message.contains(text) == true, "\(error?.message ?? "no error")")
        #expect(error?.isTransient == isTransient)
        await server.stop()
    }

    @Test(arguments: [
        ("no protocol", 1002), ("unoffered protocol", 403), ("protocol list", 403), ("wrong accept", 1002), ("no upgrade", 1002), ("extension", 1002),
    ])
    func aWrong101IsRefused(what: String, code: Int) async throws {
        let server = try await RawServer.start { socket in
            let head = try await socket.readHeader()
            let answer = switch what {
            case "no protocol": switching(head, protocolName: nil)
            case "unoffered protocol": switching(head, protocolName: "BLIP_3+CBMobile_5")
            case "protocol list": switching(head, protocolName: "BLIP_3+CBMobile_3,BLIP_3+CBMobile_2")
            case "wrong accept": switching(head, accept: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
            case "no upgrade": switching(head, connection: "close")
            default: switching(head, extra: "Sec-WebSocket-Extensions: permessage-deflate\r\n")
            }
            try await socket.send(answer)
            _ = try await socket.readToEnd()
        }
        let error = await connectionError(try client(server.port))
        #expect(error?.domain == .websocket)
        #expect(error?.code == code)
        #expect(error?.isTransient == false)
        await server.stop()
    }

    @Test func nobodyListening() async throws {
        let server = try await RawServer.answering("")
        let port = server.port
        await server.stop()
        let error = await connectionError(try client(port))
        #expect(error?.domain == .network)
        #expect(error?.code == 19)
        #expect(error?.isTransient == true)
    }

    @Test func anUnknownHost() async throws {
        let unknown = WebSocketClient(.init(url: try EndpointURL("ws://nightjar-test.invalid/db")), group: testGroup, environment: .system)
        let error = await connectionError(unknown)
        // Without a name server the system says "try again" instead.
        #expect(error?.domain == .network)
        #expect([1, 2].contains(error?.code))
        #expect(error?.isNetworkDependent == true)
    }

    @Test func aServerThatNeverAnswers() async throws {
        let server = try await RawServer.start { _ = try await $0.readToEnd() }
        // Long enough for a busy machine to notice that the connection is open.
        let error = await connectionError(try client(server.port) { $0.limits.connectTime = .seconds(2) })
        #expect(error?.domain == .network)
        #expect(error?.code == 3)
        #expect(error?.message.contains("accepted the connection and did not answer within 2000 ms (connect_time)") == true, "\(String(describing: error))")
        await server.stop()
    }

    @Test func aCancelledTaskGivesUp() async throws {
        let (requests, continuation) = AsyncStream<Void>.makeStream()
        let server = try await RawServer.start { socket in
            _ = try await socket.readHeader()
            continuation.yield()
            _ = try await socket.readToEnd()
        }
        let connecting = try client(server.port)
        let task = Task { try await connecting.connect() }
        for await _ in requests { break }
        task.cancel()
        await #expect(throws: CancellationError.self) { _ = try await task.value }
        await server.stop()
    }

    @Test func tlsIsNeededForSecureURLs() async throws {
        let secure = WebSocketClient(.init(url: try EndpointURL("wss://127.0.0.1:1/db")), group: testGroup, environment: .system)
        #expect(await connectionError(secure)?.domain == .tls)
    }

    @Test func redirectsAreFollowed() async throws {
        try await withListener { listener, delegate in
            let server = try await RawServer.answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:\(listener.port)/other/_blipsync\r\nContent-Length: 0\r\n\r\n")
            let seen = Mutex<[Int]>([])
            let transport = try await client(server.port) { configuration in
                configuration.credentials = .basic(BasicCredentials(username: "u", password: "p"))
                configuration.onResponse = { status, _ in seen.withLock { $0.append(status) } }
            }.connect()
            let request = await delegate.nextTransport()?.request
            #expect(request?.database == "other")
            #expect(request?.basicCredentials == nil)
            #expect(seen.withLock { $0 } == [307, 101])
            #expect((transport as? WebSocketConnection)?.protocolName == "BLIP_3+CBMobile_3")
            transport.drop()
            await server.stop()
        }
    }

    @Test func theSameServerGetsCredentialsElsewhere() async throws {
        let heads = Mutex<[String]>([])
        let server = try await RawServer.start { socket in
            let head = String(try await socket.readHeader())
            let isFirst = heads.withLock { heads in
                heads.append(head)
                return heads.count == 1
            }
            try await socket.send(
                isFirst ? "HTTP/1.1 307 Temporary Redirect\r\nLocation: /other/_blipsync\r\nContent-Length: 0\r\n\r\n" : "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        }
        let error = await connectionError(try client(server.port) { $0.credentials = .bearer("secret") })
        #expect(error?.code == 403)
        #expect(heads.withLock { $0.count == 2 && $0[1].hasPrefix("GET /other/_blipsync") && $0[1].contains("Authorization: Bearer secret") })
        await server.stop()
    }

    @Test(arguments: ["localhost", "127.0.0.1"]) func anotherHostOrPortGetsNoCredentials(host: String) async throws {
        try await withListener { listener, delegate in
            let server = try await RawServer.answering("HTTP/1.1 302 Found\r\nLocation: ws://\(host):\(listener.port)/other\r\nContent-Length: 0\r\n\r\n")
            let transport = try await client(server.port) { configuration in
                configuration.credentials = .bearer("secret")
                configuration.headers.add("X-Api-Key", "secret")
            }.connect()
            let request = await delegate.nextTransport()?.request
            #expect(request?.headers.contains("Authorization") == false)
            #expect(request?.headers.contains("X-Api-Key") == false)
            #expect(request?.headers.contains("User-Agent") == true)
            transport.drop()
            await server.stop()
        }
    }

    @Test(arguments: [
        ("ws://hub", "ws://HUB:80/other", true), ("ws://hub", "wss://hub/db", true), ("wss://hub", "wss://hub:443/db", true), ("http://hub", "https://hub", true),
        ("ws://hub:4984", "ws://hub:4985", false), ("ws://hub:80", "wss://hub:8443", false), ("wss://hub", "ws://hub:80", false), ("ws://hub", "ws://hub2", false),
    ]) func whoIsTheSameServer(from: String, to: String, isSame: Bool) throws {
        #expect(try EndpointURL(to).isSameServer(as: EndpointURL(from)) == isSame)
    }

    /// The remedy of a refusal there says so.
    @Test func aLoginThatAnotherPortAsksForIsNotTaken() async throws {
        let other = try await RawServer.answering("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        let server = try await RawServer.answering("HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:\(other.port)/other\r\nContent-Length: 0\r\n\r\n")
        let error = await connectionError(try client(server.port) { $0.credentials = .bearer("secret") })
        #expect(error?.code == 401 && error?.remedy?.contains("127.0.0.1:\(other.port), another host or port") == true, "\(String(describing: error))")
        for each in [server, other] { await each.stop() }
    }

    @Test func redirectsEndSomewhere() async throws {
        let count = Mutex(0)
        let server = try await RawServer.start { socket in
            _ = try await socket.readHeader()
            count.withLock { $0 += 1 }
            try await socket.send("HTTP/1.1 301 Moved Permanently\r\nLocation: /db/_blipsync\r\nContent-Length: 0\r\n\r\n")
        }
        let error = await connectionError(try client(server.port))
        #expect(error?.domain == .network && error?.code == 5 && error?.kind == .needsAction && error?.publicCode == 5005)
        #expect(count.withLock { $0 } == 11)
        await server.stop()
    }

    @Test func credentialsOnChallengeOnly() async throws {
        let attempts = Mutex<[Bool]>([])
        let delegate = TestDelegate(authorize: { request in
            attempts.withLock { $0.append(request.basicCredentials != nil) }
            return request.basicCredentials == nil ? .refuse(status: 401, reason: "Login required", headers: ["WWW-Authenticate": "Basic realm=\"x\""]) : .accept()
        })
        try await withListener(delegate) { listener, _ in
            let transport = try await client(listener.port) {
                $0.credentials = .basic(BasicCredentials(username: "u", password: "p"))
                $0.sendsCredentialsUpFront = false
            }.connect()
            #expect(attempts.withLock { $0 } == [false, true])
            transport.drop()
        }
    }

    @Test func theLocalAddressCanBeChosen() async throws {
        try await withListener { listener, delegate in
            let transport = try await client(listener.port) { $0.networkInterface = "127.0.0.2" }.connect()
            #expect(await delegate.nextTransport()?.request.remoteAddress.hasPrefix("127.0.0.2:") == true)
            transport.drop()
            let loopback = NetworkInterfaces.all().first { $0.isLoopback }?.interface
            let byName = try await client(listener.port) { $0.networkInterface = loopback }.connect()
            byName.drop()
            let error = await connectionError(try client(listener.port) { $0.networkInterface = "nosuch0" })
            #expect(error?.code == 27)
            #expect(error?.message.contains("nosuch0") == true)
        }
    }

    @Test("requests to databases of CouchDB leave by the chosen interface as well")
    func theLocalAddressOfRequestsCanBeChosen() async throws {
        let seen = Mutex<[String]>([])
        let server = try await RawServer.start { socket in
            seen.withLock { $0.append(socket.channel.remoteAddress?.ipAddress ?? "none") }
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"db_name\":\"db\"}")
        }
        let port = server.port
        func connect(by interface: String?) async throws {
            var configuration = WebSocketClient.Configuration(url: try EndpointURL("http://127.0.0.1:\(port)/db"))
            configuration.networkInterface = interface
            _ = try await DatabaseClient(configuration, group: testGroup, environment: .system).connect()
        }
        try await connect(by: "127.0.0.2")
        #expect(seen.withLock { $0 } == ["127.0.0.2"])
        try await connect(by: NetworkInterfaces.all().first { $0.isLoopback }?.interface)
        let error = await #expect(throws: ReplicationError.self) { try await connect(by: "nosuch0") }
        #expect(error?.code == 27 && error?.message.contains("nosuch0") == true)
        await server.stop()
    }

    @Test func namesResolve() async throws {
        try await withListener { listener, _ in
            let transport = try await WebSocketClient(.init(url: try EndpointURL("ws://localhost:\(listener.port)/db")), group: testGroup, environment: .system).connect()
            transport.drop()
        }
    }
}
