import NIOCore
import Testing

@testable import HTTPServer

@Suite("Requests that can be read in one way only", .timeLimit(.minutes(10)))
struct MessageTests {
    private let routes: [Route] = [
        .get("x") { _ in .json("{}") },
        .post("x") { .json("\(try await $0.body.collect().readableBytes)") },
    ]

    @Test("ambiguous ends, lines and targets are 400 and end the connection", arguments: [
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 4\r\n\r\nabcd",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc\r\n0\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YTpi\r\nAuthorization: Basic Yzpk\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nauthorization: Bearer a\r\n\r\n",
        "GET /x HTTP/1.1\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a, b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: user@a\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nA: b\rC: d\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        "GET /x HTTP/1.1\nHost: a\n\n",
        "GET /x HTTP/1.1\r\nHost: a\r\nA: b\u{0}c\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        "GET /x HTTP/1.1\r\n Host: a\r\n\r\n",
        "GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    ])
    func smuggling(_ text: String) async throws {
        try await withRoutes(routes) { _, port in
            // A second request behind it must never be answered.
            let answer = try await exchange(port, text + "GET /x HTTP/1.1\r\nHost: smuggled\r\nConnection: close\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 400 "), "\(answer)")
            #expect(answer.contains("Connection: close\r\n"))
            #expect(!answer.contains("HTTP/1.1 200"), "\(answer)")
        }
    }

    @Test("HTTP/1.0 needs no Host")
    func oldClients() async throws {
        try await withRoutes(routes) { _, port in
            let answer = try await exchange(port, "GET /x HTTP/1.0\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test("a body in a form that the route does not read is 415")
    func codings() async throws {
        try await withRoutes(routes) { _, port in
            for coding in ["gzip", "br", "identity, gzip"] {
                let answer = try await exchange(port, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Encoding: \(coding)\r\nContent-Length: 3\r\n\r\nabc")
                #expect(answer.hasPrefix("HTTP/1.1 415 ") && answer.contains("Accept-Encoding: identity\r\n"), "\(answer)")
            }
            let plain = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Encoding: identity\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
            let answer = try await exchange(port, plain)
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test("a second identical Content-Length is refused too: RFC 9112 allows it, and no client needs it")
    func repeatedLength() async throws {
        try await withRoutes(routes) { _, port in
            let answer = try await exchange(port, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc")
            #expect(answer.hasPrefix("HTTP/1.1 400 "))
        }
    }

    @Test("204 and 304 have no body, HEAD has none either, and its length is that of GET")
    func bodyless() async throws {
        let routes: [Route] = [
            .get("empty") { _ in HTTPResponse(status: 204, body: .buffer(ByteBuffer(string: "no"))) },
            .get("same") { _ in .stream(status: 304) { try await $0.write(ByteBuffer(string: "no")) } },
            .get("known") { _ in .stream(length: 5) { try await $0.write(ByteBuffer(string: "hello")) } },
        ]
        try await withRoutes(routes) { _, port in
            let answer = try await exchange(
                port,
                ["GET /empty", "GET /same", "HEAD /known", "GET /known"].map { "\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined()
                    + "HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            #expect(
                answer == "HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\nHTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n"
                    + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"
                    + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"
                    + "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 59\r\nConnection: close\r\n\r\n")
        }
    }

    @Test("a response shorter than announced is cut off, so that nobody takes it for the whole", arguments: [3, 20])
    func wrongLength(_ length: Int) async throws {
        let routes: [Route] = [.get("x") { _ in .stream(length: length) { try await $0.write(ByteBuffer(string: "hello hello")) } }]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            let answer = await client.readToEnd()
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n"))
            #expect(answer.split(separator: "\r\n\r\n").count == (length == 3 ? 1 : 2))
        }
    }

    @Test("100 Continue comes when the body is asked for, and not when it is refused")
    func expectContinue() async throws {
        let routes: [Route] = [
            .put("taken") { .json("\(try await $0.body.collect().readableBytes)") },
            .put("small", bodyLimit: NamedLimit("small_bytes", 2)) { .json("\(try await $0.body.collect().readableBytes)") },
        ]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /taken HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            #expect(await client.readHeader() == "HTTP/1.1 100 Continue\r\n\r\n")
            try await client.send("abc")
            #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
            await client.close()
            for path in ["/small", "/none"] {
                let answer = try await exchange(port, "PUT \(path) HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
                #expect(answer.hasPrefix(path == "/small" ? "HTTP/1.1 413" : "HTTP/1.1 404"), "\(answer)")
                #expect(answer.contains("Connection: close"))
            }
        }
    }
}
