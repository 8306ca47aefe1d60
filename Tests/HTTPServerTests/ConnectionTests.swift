import Environment
import Glibc
import NIOCore
import Synchronization
import Testing

@testable import HTTPServer

@Suite("Connections", .timeLimit(.minutes(10)))
struct ConnectionTests {
    private let get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
    private let routes: [Route] = [.get("x") { _ in .json("{}") }]

    private func served(_ port: Int, from host: String? = nil) async throws -> RawClient {
        let client = try await RawClient.connect(port, from: host)
        try await client.send(get)
        #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
        _ = await client.read(2)
        return client
    }

    @Test("when all places are taken, a new connection takes that of the one that has waited longest")
    func full() async throws {
        var limits = HTTPLimits.patient
        limits.maxSockets = 2
        try await withRoutes(routes, limits: limits) { listener, port in
            let first = try await served(port)
            let second = try await served(port)
            let third = try await served(port)
            #expect(await first.readToEnd() == "")
            // The second and the third are still there.
            for client in [second, third] {
                try await client.send(get)
                #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
            }
            #expect(listener.socketCount == 2)
            for client in [first, second, third] { await client.close() }
        }
    }

    @Test("a connection whose request is being answered keeps its place")
    func busy() async throws {
        var limits = HTTPLimits.patient
        limits.maxSockets = 1
        let begun = Gate()
        let gate = Gate()
        let routes: [Route] = [
            .get("slow") { _ in
                begun.open()
                await gate.wait()
                return .json("{}")
            }
        ]
        try await withRoutes(routes, limits: limits) { _, port in
            let first = try await RawClient.connect(port)
            try await first.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.wait()
            let second = try await RawClient.connect(port)
            #expect(await second.readToEnd() == "")
            gate.open()
            #expect(await first.readHeader().hasPrefix("HTTP/1.1 200"))
            for client in [first, second] { await client.close() }
        }
    }

    @Test("an address that has its share gets no more, and other addresses are not affected")
    func perAddress() async throws {
        var limits = HTTPLimits.patient
        limits.maxConnectionsPerAddress = 2
        try await withRoutes(routes, limits: limits) { _, port in
            let other = try await served(port, from: "127.0.0.3")
            let first = try await served(port)
            let second = try await served(port)
            let third = try await served(port)
            #expect(await first.readToEnd() == "")
            try await other.send(get)
            #expect(await other.readHeader().hasPrefix("HTTP/1.1 200"))
            for client in [first, second, third, other] { await client.close() }
        }
    }

    @Test("if none of an address's connections is idle, the next few get 503, the rest are closed, and no place is lost")
    func refusedWithWords() async throws {
        var limits = HTTPLimits.patient
        limits.maxConnectionsPerAddress = 1
        limits.maxRefusalsPerAddress = 2
        let begun = Gate()
        let gate = Gate()
        let routes: [Route] = routes + [
            .get("slow") { _ in
                begun.open()
                await gate.wait()
                return .json("{}")
            }
        ]
        try await withRoutes(routes, limits: limits) { listener, port in
            let busy = try await RawClient.connect(port)
            try await busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.wait()
            let refused = [try await RawClient.connect(port), try await RawClient.connect(port)]
            try await until { listener.socketCount == 3 }
            let closed = try await RawClient.connect(port)
            #expect(await closed.readToEnd() == "")
            for client in refused {
                try await client.send(get)
                let answer = await client.readToEnd()
                #expect(answer.hasPrefix("HTTP/1.1 503 ") && answer.contains("127.0.0.1 holds as many connections as max_connections_per_address (1)"), "\(answer)")
                await client.close()
            }
            try await until { listener.socketCount == 1 }
            // Another address is not concerned, and the one that was busy is served.
            let other = try await served(port, from: "127.0.0.3")
            gate.open()
            #expect(await busy.readHeader().hasPrefix("HTTP/1.1 200"))
            _ = await busy.read(2)
            let next = try await served(port)
            for client in [busy, closed, other, next] { await client.close() }
        }
    }

    @Test("an address that opens very many pays for it: a connection of the address with the most unfinished ones is closed")
    func fairShare() async throws {
        var limits = HTTPLimits.patient
        limits.maxHandshakes = 4
        try await withRoutes(routes, limits: limits) { listener, port in
            let patient = try await RawClient.connect(port, from: "127.0.0.3")
            try await patient.send("GET /x HTTP/1.1\r\nHo")
            try await until { listener.socketCount == 1 }
            var greedy: [RawClient] = []
            for n in 0..<50 {
                let client = try await RawClient.connect(port)
                try? await client.send("GET /x HT")
                greedy.append(client)
                try await until { listener.socketCount == min(n + 2, 4) }
            }
            try await patient.send("st: a\r\n\r\n")
            #expect(await patient.readHeader().hasPrefix("HTTP/1.1 200"))
            // The newest of the greedy ones are served too.
            try await greedy[49].send("TP/1.1\r\nHost: a\r\n\r\n")
            #expect(await greedy[49].readHeader().hasPrefix("HTTP/1.1 200"))
            #expect(await greedy[0].readToEnd() == "")
            for client in greedy + [patient] { await client.close() }
        }
    }

    @Test("requests are answered in order, and not more are queued than allowed")
    func pipelining() async throws {
        var limits = HTTPLimits.patient
        limits.queuedRequests = 3
        let gate = Gate()
        let answered = Mutex(0)
        let routes: [Route] = [
            .get("x/:n") { request in
                await gate.wait()
                answered.withLock { $0 += 1 }
                return .json(try request.parameters.require("n"))
            }
        ]
        try await withRoutes(routes, limits: limits) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send((1...6).map { "GET /x/\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            gate.open()
            let bodies = await client.readToEnd().split(separator: "HTTP/1.1 ").map { $0.split(separator: "\r\n\r\n").last ?? "" }
            #expect(bodies.prefix(4) == ["1", "2", "3", "4"])
            #expect(bodies.count == 5)
            #expect(bodies.last?.contains("queued_requests (3)") == true)
            #expect(answered.withLock { $0 } == 4)
            await client.close()
        }
    }

    @Test("a client that does not read its answers gets no more work done")
    func unreadAnswers() async throws {
        let answered = Mutex(0)
        let big = ByteBuffer(repeating: UInt8(ascii: "x"), count: 8 << 20)
        let routes: [Route] = [
            .get("x") { _ in
                answered.withLock { $0 += 1 }
                return .json(big)
            }
        ]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port, reads: false)
            try await client.send(String(repeating: get, count: 10))
            try await until { answered.withLock { $0 } > 0 }
            // Others are served in the meantime, so had the server gone on it would have shown.
            for _ in 0..<20 { _ = try await exchange(port, "GET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") }
            #expect(answered.withLock { $0 } <= 2)
            client.beginReading()
            for _ in 0..<10 {
                #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
                #expect(await client.read(8 << 20).utf8.count == 8 << 20)
            }
            #expect(answered.withLock { $0 } == 10)
            await client.close()
        }
    }

    @Test("no request is begun while anything of the answer before it waits for the client, and what waits counts")
    func unreadBelowTheWatermark() async throws {
        var limits = HTTPLimits.patient
        limits.writeHighWatermark = 256 << 20
        let memory = MemoryBudget(limit: 1 << 30)
        let begun = Mutex(0)
        let big = ByteBuffer(repeating: UInt8(ascii: "x"), count: 32 << 20)
        let routes: [Route] = [
            .get("x") { _ in
                begun.withLock { $0 += 1 }
                return begun.withLock { $0 } % 2 == 1 ? .json(big) : .stream { try await $0.write(big) }
            }
        ]
        try await withRoutes(routes, limits: limits, memory: memory) { _, port in
            let client = try await RawClient.connect(port, reads: false)
            try await client.send(String(repeating: get, count: 3))
            try await until { memory.used > 8 << 20 }
            // Others are served in the meantime, so had the server gone on it would have shown.
            for _ in 0..<20 { _ = try await exchange(port, "GET /y HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") }
            #expect(begun.withLock { $0 } == 1)
            client.beginReading()
            let first = await client.readHeader()
            #expect(first.hasPrefix("HTTP/1.1 200"))
            #expect(await client.read(32 << 20).utf8.count == 32 << 20)
            try await until { begun.withLock { $0 } == 3 }
            await client.close()
            try await until { memory.used == 0 }
        }
    }

    @Test("answers above the write watermark to a client that reads at once are all sent, each once")
    func fastReader() async throws {
        let answered = Mutex(0)
        let size = 400 << 10
        let big = ByteBuffer(repeating: UInt8(ascii: "x"), count: size)
        let routes: [Route] = [
            .get("x") { _ in
                answered.withLock { $0 += 1 }
                return .json(big)
            }
        ]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port)
            for _ in 0..<30 {
                try await client.send(String(repeating: get, count: 10))
                for _ in 0..<10 {
                    #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
                    #expect(await client.read(size).utf8.count == size)
                }
            }
            #expect(answered.withLock { $0 } == 300)
            await client.close()
        }
    }

    @Test("draining ends idle connections at once, answers what is under way, and notifies endless answers")
    func drain() async throws {
        let begun = Gate()
        let gate = Gate()
        let routes: [Route] = [
            .get("x") { _ in .json("{}") },
            .put("taken") { .json("\(try await $0.body.collect().readableBytes)") },
            .get("slow") { _ in
                begun.open()
                await gate.wait()
                return .json("\"done\"")
            },
            .get("endless") { request in
                .stream { writer in
                    let (ticks, continuation) = AsyncStream.makeStream(of: Void.self)
                    _ = request.connection.drain.onDrain { continuation.finish() }
                    try await writer.write(ByteBuffer(string: "begun"))
                    for await _ in ticks {}
                    try await writer.write(ByteBuffer(string: "end"))
                }
            },
        ]
        try await withRoutes(routes) { listener, port in
            let idle = try await served(port)
            let endless = try await RawClient.connect(port)
            try await endless.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = await endless.readHeader()
            let incomplete = try await RawClient.connect(port)
            try await incomplete.send("PUT /taken HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            try await until { listener.bodyBytes == 3 }
            let slow = try await RawClient.connect(port)
            try await slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.wait()
            async let drained: Void = listener.drain(within: .seconds(30))
            #expect(await idle.readToEnd() == "")
            #expect(await incomplete.readToEnd().hasPrefix("HTTP/1.1 503"))
            #expect(await endless.readToEnd() == "5\r\nbegun\r\n3\r\nend\r\n0\r\n\r\n")
            gate.open()
            let answer = await slow.readToEnd()
            #expect(answer.contains("Connection: close") && answer.hasSuffix("\"done\""))
            for client in [idle, incomplete, slow, endless] { await client.close() }
            await drained
            #expect(listener.socketCount == 0)
        }
    }

    @Test("a unix domain socket serves as well")
    func unixSocket() async throws {
        let path = "/tmp/nightjar-http-\(UInt64.random(in: 0 ... .max)).sock"
        defer { unlink(path) }
        let router = Router(routes)
        let address = HTTPListener.Address(try SocketAddress(unixDomainSocketPath: path))
        let listener = try await HTTPListener.bind([address], .init(), group: testGroup, logger: quietLogger()) { try await router.respond(to: $0) }
        let client = try await RawClient.connect(unix: path)
        try await client.send(get)
        #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
        await client.close()
        await listener.drain(within: .seconds(1))
    }
}
