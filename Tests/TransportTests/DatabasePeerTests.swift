import Documents
import Encodings
import Environment
import HTTPServer
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Transport

/// What a database's HTTP peer does about logins, secrets, answers without end, and being stopped.
@Suite("Databases over HTTP", .timeLimit(.minutes(5)))
struct DatabasePeerTests {
    private func configuration(_ port: Int, _ change: (inout WebSocketClient.Configuration) -> Void = { _ in }) throws -> WebSocketClient.Configuration {
        var configuration = WebSocketClient.Configuration(url: try EndpointURL("http://127.0.0.1:\(port)/db"))
        change(&configuration)
        return configuration
    }

    private func peer(_ port: Int, _ change: (inout WebSocketClient.Configuration) -> Void = { _ in }) throws -> DatabasePeer {
        DatabasePeer(try configuration(port, change), eventLoop: testGroup.next(), environment: .system)
    }

    /// Says when it was asked something, and never answers.
    private func mute(_ body: (_ port: Int, _ asked: AsyncStream<String>) async throws -> Void) async throws {
        let asked = AsyncStream<String>.makeStream()
        let server = try await RawServer.start { socket in
            asked.continuation.yield(String(try await socket.readHeader().prefix { $0 != "\r\n" }))
            _ = try await socket.readToEnd()
        }
        try await body(server.port, asked.stream)
        await server.stop()
    }

    @Test("another host or port that a database redirects to gets neither login, cookie nor headers of ours")
    func redirected() async throws {
        for host in ["localhost", "127.0.0.1"] {
            let seen = Mutex("")
            let other = try await RawServer.start { socket in
                let header = String(try await socket.readHeader())
                seen.withLock { $0 = header }
                try await socket.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"db_name\":\"db\"}")
            }
            let first = try await RawServer.answering(
                "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://\(host):\(other.port)/db\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            let client = DatabaseClient(
                try configuration(first.port) {
                    $0.credentials = .bearer("a secret")
                    $0.headers.add("X-Api-Key", "a key")
                }, group: testGroup, environment: .system)
            let transport = try await client.connect()
            let header = seen.withLock { $0 }
            #expect(header.hasPrefix("GET /db HTTP/1.1\r\n"), "\(header)")
            for secret in ["a secret", "a key"] { #expect(!header.contains(secret), "\(header)") }
            transport.drop()
            for server in [first, other] { await server.stop() }
        }
    }

    @Test("stopping while a session is opened, or a token requested, does not wait for it")
    func stopped() async throws {
        let basic = WebSocketClient.Credentials.basic(BasicCredentials(username: "ada", password: "enchantress"))
        try await mute { port, asked in
            let tokens = IAMTokens(try EndpointURL("http://127.0.0.1:\(port)/identity/token"), group: testGroup, environment: .system) { .init() } key: { "key" }
            var requests = asked.makeAsyncIterator()
            for (credentials, path) in [(basic, "POST /_session HTTP/1.1"), (.iam(tokens), "POST /identity/token HTTP/1.1")] {
                let client = DatabaseClient(try configuration(port) { $0.credentials = credentials }, group: testGroup, environment: .system)
                let task = Task { _ = try await client.connect() }
                #expect(await requests.next() == path)
                task.cancel()
                await #expect(throws: CancellationError.self) { try await task.value }
            }
            // One of two that wait for the same may go, and the end of the peer ends it for the other.
            let peer = try peer(port) { $0.credentials = basic }
            let tasks = (0..<2).map { _ in Task { _ = try await peer.exchange(PeerRequest("GET", "")) } }
            #expect(await requests.next() == "POST /_session HTTP/1.1")
            tasks[0].cancel()
            await #expect(throws: CancellationError.self) { try await tasks[0].value }
            peer.drop()
            await #expect(throws: CancellationError.self) { try await tasks[1].value }
        }
    }

    @Test("a cancelled request does not deprive the others of the login")
    func shared() async throws {
        let work = Mutex<[CheckedContinuation<Void, Never>]>([])
        let begun = AsyncStream<Void>.makeStream()
        let shared = SharedWork<Int>(.system) { _ in
            await withCheckedContinuation { continuation in
                work.withLock { $0.append(continuation) }
                begun.continuation.yield()
            }
            return .success(7)
        }
        let tasks = (0..<3).map { _ in Task { try await shared.value() } }
        for await _ in begun.stream { break }
        // All of them are there when one goes.
        while shared.waitingCount < 3 { await Task.yield() }
        tasks[1].cancel()
        await #expect(throws: CancellationError.self) { try await tasks[1].value }
        #expect(!shared.isGivenUp)
        for each in work.withLock({ $0 }) { each.resume() }
        #expect(try await tasks[0].value == 7)
        #expect(try await tasks[2].value == 7)
        #expect(try await shared.value() == 7)
    }

    @Test("a refusal that repeats secrets shows none of them, however it spells them, not even those replaced in the meantime")
    func secrets() async throws {
        let tokens = Mutex(["token-one", "token-two"])
        let delegate = TestDelegate(respond: { request in
            _ = try await request.body.collect()
            let sent = request.headers.first("Authorization") ?? ""
            if sent.hasSuffix("one") { return .error(status: 401, error: "unauthorized", reason: "old") }
            // Of the previous token, and in characters that JSON may escape.
            let escaped = sent.unicodeScalars.map { "\\u00" + String($0.value, radix: 16) }.joined()
            let text = "{\"error\":\"token-one\",\"reason\":\"\(escaped) pass\\\"word\",\"other\":[\"\(sent)\"]}"
            return HTTPResponse(status: 500, headers: ["Content-Type": "application/json"], body: .buffer(ByteBuffer(string: text)))
        })
        try await withListener(delegate) { listener, _ in
            let peer = try peer(listener.port) { configuration in
                configuration.credentials = .bearer("token-one")
                configuration.headers = ["X-Key": "pass\"word"]
                configuration.refresh = { $0.credentials = .bearer(tokens.withLock { $0[1] }) }
            }
            let answer = try await peer.exchange(PeerRequest("GET", ""))
            let text = String(buffer: answer.body)
            #expect(answer.status == 500 && text.contains("(secret)"))
            for secret in ["token-one", "token-two", "pass", "u0074"] { #expect(!text.contains(secret), "\(text)") }
            #expect(peer.withoutSecrets("token-one token-two") == "(secret) (secret)")
        }
    }

    /// Lets requests go on when so many are there.
    private final class Gate: Sendable {
        private let state: Mutex<(missing: Int, waiting: [CheckedContinuation<Void, Never>])>
        init(_ count: Int) { state = Mutex((count, [])) }

        func pass() async {
            await withCheckedContinuation { continuation in
                let all = state.withLock { state in
                    state.missing -= 1
                    state.waiting.append(continuation)
                    guard state.missing <= 0 else { return [CheckedContinuation<Void, Never>]() }
                    defer { state.waiting = [] }
                    return state.waiting
                }
                for each in all { each.resume() }
            }
        }
    }

    @Test("a secret that was replaced is read again for all requests that used the old one, not only for the first", arguments: [false, true])
    func renewedForAll(isBasic: Bool) async throws {
        @Sendable func credentials(_ secret: String) -> WebSocketClient.Credentials {
            isBasic ? .basic(BasicCredentials(username: "ada", password: secret)) : .bearer(secret)
        }
        let good = isBasic ? "Basic " + Base64.encode(Array("ada:second".utf8)) : "Bearer second"
        let gate = Gate(4)
        let delegate = TestDelegate(respond: { request in
            _ = try await request.body.collect()
            // Sessions are unknown here.
            if request.path == "/_session" { return .error(status: 404, error: "not_found", reason: "missing") }
            if request.headers.first("Authorization") == good { return .json("{\"db_name\":\"db\"}") }
            await gate.pass()
            return .error(status: 401, error: "unauthorized", reason: "who?")
        })
        try await withListener(delegate) { listener, _ in
            let peer = try peer(listener.port) { configuration in
                configuration.credentials = credentials("first")
                configuration.refresh = { $0.credentials = credentials("second") }
            }
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for _ in 0..<4 { group.addTask { try await peer.exchange(PeerRequest("GET", "")).status } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses == [200, 200, 200, 200])
        }
    }

    @Test("an answer that says more about itself than a database does is not one")
    func tooMuch() async throws {
        let server = try await RawServer.answering(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + String(repeating: "2000\r\n\(String(repeating: " ", count: 0x2000))\r\n", count: 20)
                + "10\r\n{\"db_name\":\"db\"}\r\n0\r\n\r\n")
        let client = DatabaseClient(try configuration(server.port), group: testGroup, environment: .system)
        let error = await #expect(throws: ReplicationError.self) { _ = try await client.connect() }
        #expect(error?.message.contains("not a CouchDB database") == true)
        await server.stop()
    }
}
