import HTTPServer
import Interfaces
import NIOCore
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct HTTPClientTests {
    @Test func requestsOverTCP() async throws {
        let delegate = TestDelegate(respond: { request in
            HTTPResponse(status: 201, headers: ["X-Seen": "\(request.method) \(request.uri) \(request.headers.first("X-A") ?? "-")"], body: .buffer(try await request.body.collect()))
        })
        try await withListener(delegate) { listener, _ in
            let client = HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup)
            let answer = try await client.request("PUT", "/db/doc?x=1", headers: ["X-A": "b"], body: .buffer(ByteBuffer(string: "{}")))
            #expect(answer.status == 201)
            #expect(answer.headers.first("x-seen") == "PUT /db/doc?x=1 b")
            #expect(String(buffer: answer.body) == "{}")
            #expect(try await client.request("GET", "/").body.readableBytes == 0)
            await #expect(throws: ReplicationError.self) { try await client.request("GET", "/a b") }
            await #expect(throws: ReplicationError.self) { try await client.request("GET", "/", headers: ["A": "b\r\nC: d"]) }
        }
    }

    @Test func requestsOverAUnixSocket() async throws {
        let path = "/tmp/nightjar-test-\(UInt64.random(in: 0 ... .max)).sock"
        let server = try await RawServer.start(to: try SocketAddress(unixDomainSocketPath: path)) { socket in
            let head = try await socket.readHeader()
            try await socket.send("HTTP/1.1 200 OK\r\nContent-Length: \(head.utf8.count)\r\n\r\n\(head)")
        }
        let answer = try await HTTPClient(.unix(path: path), group: testGroup).request("GET", "/api/status")
        #expect(String(buffer: answer.body) == "GET /api/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        await server.stop()
        let missing = HTTPClient(.unix(path: "/tmp/nightjar-no-such.sock"), group: testGroup)
        let error = await #expect(throws: ReplicationError.self) { try await missing.request("GET", "/") }
        #expect(error?.code == 19)
        #expect(error?.message.contains("/tmp/nightjar-no-such.sock") == true)
    }

    @Test func largeBodiesStreamBothWays() async throws {
        let delegate = TestDelegate(respond: { request in
            let total = try await request.body.collect().readableBytes
            return HTTPResponse(status: 200, body: .stream { writer in
                for _ in 0..<(total / 65536) { try await writer.write(ByteBuffer(repeating: 2, count: 65536)) }
            })
        })
        try await withListener(delegate) { listener, _ in
            let client = HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup)
            let pieces = 128
            let received = try await client.stream(
                "POST", "/import", body: .stream { writer in
                    for _ in 0..<pieces { try await writer.write(ByteBuffer(repeating: 1, count: 65536)) }
                }
            ) { head, body in
                var count = 0
                for try await piece in body { count += piece.readableBytes }
                return count
            }
            #expect(received == pieces * 65536)
        }
    }

    @Test func anEarlyAnswerIsHeard() async throws {
        var limits = TransportLimits()
        limits.http.bodyBytes = 1000
        try await withListener(limits: limits) { listener, _ in
            let client = HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup)
            let answer = try await client.request("POST", "/import", body: .stream { writer in
                for _ in 0..<2000 { try await writer.write(ByteBuffer(repeating: 1, count: 1000)) }
            })
            #expect(answer.status == 413)
        }
    }

    @Test func failuresAreTold() async throws {
        struct Unreadable: Error, Equatable {}
        try await withListener { listener, _ in
            let client = HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup)
            await #expect(throws: Unreadable.self) {
                try await client.request("POST", "/import", body: .stream { writer in
                    try await writer.write(ByteBuffer(string: "x"))
                    throw Unreadable()
                })
            }
        }
        let silent = try await RawServer.start { _ = try await $0.readToEnd() }
        let timedOut = await #expect(throws: ReplicationError.self) {
            try await HTTPClient(.tcp(host: "127.0.0.1", port: silent.port), group: testGroup).request("GET", "/", timeout: .milliseconds(50))
        }
        #expect(timedOut?.code == 3)
        await silent.stop()
        for answer in ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "rubbish\r\n\r\n"] {
            let server = try await RawServer.answering(answer)
            let error = await #expect(throws: ReplicationError.self) { try await HTTPClient(.tcp(host: "127.0.0.1", port: server.port), group: testGroup).request("GET", "/") }
            #expect(error?.domain == .network)
            await server.stop()
        }
    }

    @Test func anAnswerIsBounded() async throws {
        let server = try await RawServer.answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1234567890")
        let error = await #expect(throws: ReplicationError.self) {
            try await HTTPClient(.tcp(host: "127.0.0.1", port: server.port), group: testGroup).request("GET", "/", maximumBody: 5)
        }
        #expect(error?.message.contains("maximumBody") == true)
        await server.stop()
    }
}
