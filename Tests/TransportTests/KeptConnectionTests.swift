import HTTPServer
import Interfaces
import NIOCore
import Synchronization
import Testing

@testable import Transport

/// Requests over connections that are kept.
@Suite(.timeLimit(.minutes(10))) struct KeptConnectionTests {
    /// The clients' addresses and ports: one for each connection.
    private final class Callers: Sendable {
        private let seen = Mutex<[String]>([])
        var count: Int { Set(seen.withLock { $0 }).count }
        var calls: Int { seen.withLock { $0.count } }
        func note(_ request: HTTPRequest) { seen.withLock { $0.append(request.connection.remoteAddress) } }
    }

    private func client(_ port: Int) -> HTTPClient {
        var client = HTTPClient(.tcp(host: "127.0.0.1", port: port), group: testGroup)
        client.kept = KeptConnections()
        return client
    }

    @Test("requests one after the other share a connection, and those at the same time have one each, which serve the next")
    func shared() async throws {
        let callers = Callers()
        let delegate = TestDelegate(respond: { request in
            callers.note(request)
            return HTTPResponse(status: 200, body: .buffer(try await request.body.collect()))
        })
        try await withListener(delegate) { listener, _ in
            let client = client(listener.port)
            for n in 0..<50 {
                let body = ByteBuffer(string: String(repeating: "x", count: n * 1_000))
                let answer = try await client.request(n % 2 == 0 ? "POST" : "PUT", "/x", body: .buffer(body))
                #expect(answer.body == body)
            }
            #expect(callers.count == 1 && callers.calls == 50)
            for _ in 0..<5 {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<4 {
                        group.addTask {
                            let status = try await client.request("GET", "/x").status
                            #expect(status == 200)
                        }
                    }
                    try await group.waitForAll()
                }
            }
            #expect(callers.count <= 4 && callers.calls == 70)
        }
    }

    @Test("what an answer leaves unread, and a connection that the server wants to end, is not used again")
    func unusable() async throws {
        let callers = Callers()
        let delegate = TestDelegate(respond: { request in
            callers.note(request)
            _ = try await request.body.collect()
            if request.path == "/close" { return HTTPResponse(status: 200, headers: ["Connection": "close"], body: .buffer(ByteBuffer(string: "bye"))) }
            return HTTPResponse(status: 200, body: .buffer(ByteBuffer(string: String(repeating: "y", count: 500_000))))
        })
        try await withListener(delegate) { listener, _ in
            let client = client(listener.port)
            #expect(try await client.request("GET", "/close").body.readableBytes == 3)
            let status = try await client.stream("GET", "/long") { head, _ in head.status }
            #expect(status == 200)
            await #expect(throws: CancellationError.self) { try await client.stream("GET", "/long") { _, _ in throw CancellationError() } }
            #expect(try await client.request("GET", "/long").body.readableBytes == 500_000)
            #expect(callers.count == 4)
        }
    }

    @Test("a server that has closed the connection gets the request over a new one, with its body built again")
    func ended() async throws {
        let requests = Mutex<[String]>([])
        let server = try await RawServer.start { socket in
            // One answer for each connection, which looks as if more could follow.
            let head = try await socket.readHeader()
            let body = String(decoding: try await socket.read(5), as: UTF8.self)
            requests.withLock { $0.append(String(head.prefix { $0 != "\r\n" }) + " " + body) }
            try await socket.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        let client = client(server.port)
        for n in 0..<5 {
            let answer = try await client.stream("POST", "/\(n)", body: .stream(length: 5) { try await $0.write(ByteBuffer(string: "hello")) }) { head, body in
                for try await _ in body {}
                return head.status
            }
            #expect(answer == 200)
        }
        #expect(requests.withLock { $0 } == (0..<5).map { "POST /\($0) HTTP/1.1 hello" })
        await server.stop()
        // Nobody answers any more: that is reported after one attempt.
        let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/") }
        #expect(error?.domain == .network)
    }

    @Test("a connection that waits is closed with the client, and the server sees its end")
    func closed() async throws {
        let rest = AsyncStream<Int>.makeStream()
        let server = try await RawServer.start { socket in
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 204 No Content\r\n\r\n")
            rest.continuation.yield(try await socket.readToEnd().count)
        }
        let kept = KeptConnections()
        var client = HTTPClient(.tcp(host: "127.0.0.1", port: server.port), group: testGroup)
        client.kept = kept
        #expect(try await client.request("GET", "/").status == 204)
        kept.close()
        for await count in rest.stream {
            #expect(count == 0)
            break
        }
        await server.stop()
    }

    @Test("patience is for requests: it ends one that gets no response, and not an idle connection")
    func patience() async throws {
        let heads = Mutex<[String]>([])
        let server = try await RawServer.start { socket in
            heads.withLock { $0.append("connection") }
            for _ in 0..<2 {
                let head = try await socket.readHeader()
                heads.withLock { $0.append(String(head.prefix { $0 != "\r\n" })) }
                try await socket.send("HTTP/1.1 204 No Content\r\n\r\n")
            }
            _ = try await socket.readToEnd()
        }
        var client = client(server.port)
        client.patience = .seconds(2)
        #expect(try await client.request("GET", "/a").status == 204)
        // Longer than a request may be silent: on the event loop that would have closed it.
        try await testGroup.next().scheduleTask(in: .seconds(3)) {}.futureResult.get()
        client.patience = .seconds(30)
        #expect(try await client.request("GET", "/b").status == 204)
        client.patience = .milliseconds(100)
        let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/c") }
        #expect(error?.message.contains("patience") == true)
        #expect(heads.withLock { $0 } == ["connection", "GET /a HTTP/1.1", "GET /b HTTP/1.1"])
        await server.stop()
    }

    @Test("an answer that cannot be read is an answer: its request is not sent again")
    func unreadable() async throws {
        let requests = Mutex<[String]>([])
        let server = try await RawServer.start { socket in
            for answer in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\n" + String(repeating: "X-Filler: \(String(repeating: "x", count: 1_000))\r\n", count: 200)] {
                let head = try await socket.readHeader()
                requests.withLock { $0.append(String(head.prefix { $0 != "\r\n" })) }
                try await socket.send(answer)
            }
            _ = try await socket.readToEnd()
        }
        let client = client(server.port)
        #expect(try await client.request("GET", "/a").status == 204)
        await #expect(throws: ReplicationError.self) { try await client.request("POST", "/b") }
        #expect(requests.withLock { $0 } == ["GET /a HTTP/1.1", "POST /b HTTP/1.1"])
        await server.stop()
    }

    @Test("what a server sends to a connection that was idle for too long is not mistaken for the answer to a request that crossed it")
    func idle() async throws {
        let served = Mutex(0)
        let server = try await RawServer.start { socket in
            let isFirst = served.withLock { count in
                count += 1
                return count == 1
            }
            _ = try await socket.readHeader()
            try await socket.send(isFirst ? "HTTP/1.1 204 No Content\r\n\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        }
        let client = client(server.port)
        #expect(try await client.request("GET", "/a").status == 204)
        #expect(try await client.request("GET", "/b").status == 200)
        await server.stop()
    }

    @Test("a peer that sends a byte now and then cannot hold a request for ever")
    func dripping() async throws {
        let server = try await RawServer.start { socket in
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while socket.channel.isActive {
                try await socket.send("1\r\nx\r\n")
                try await testGroup.next().scheduleTask(in: .milliseconds(20)) {}.futureResult.get()
            }
        }
        var client = client(server.port)
        client.patience = .seconds(60)
        client.pace = HTTPClient.Pace(bytes: 10_000, time: .milliseconds(400))
        let error = await #expect(throws: ReplicationError.self) { try await client.request("GET", "/", timeout: nil) }
        #expect(error?.message.contains("portion_time") == true && error?.code == ReplicationError.NetworkCode.timeout.rawValue)
        await server.stop()
    }

    @Test("time in which nobody reads what arrives is not charged to the peer")
    func untaken() async throws {
        let size = 32 << 20
        let server = try await RawServer.start { socket in
            _ = try await socket.readHeader()
            try await socket.send("HTTP/1.1 200 OK\r\nContent-Length: \(size)\r\n\r\n")
            try await socket.send([UInt8](repeating: 1, count: size))
            _ = try await socket.readToEnd()
        }
        var client = client(server.port)
        client.patience = .seconds(2)
        let count = try await client.stream("GET", "/") { _, body in
            var count = try await body.next()?.readableBytes ?? 0
            try await testGroup.next().scheduleTask(in: .seconds(5)) {}.futureResult.get()
            while let piece = try await body.next() { count += piece.readableBytes }
            return count
        }
        #expect(count == size)
        await server.stop()
    }
}
