import Environment
import NIOCore
import Synchronization
import Testing

@testable import HTTPServer

@Suite("Bodies", .timeLimit(.minutes(10)))
struct BodyTests {
    private let megabyte = ByteBuffer(repeating: UInt8(ascii: "x"), count: 1 << 20)

    @Test("a client cannot send faster than the route reads")
    func requestBackPressure() async throws {
        let gate = Gate()
        let seen = Mutex(0)
        let total = 64 << 20
        let routes: [Route] = [
            .put("slow", bodyLimit: .unlimited) { request in
                var pieces = request.body.makeAsyncIterator()
                let first = try await pieces.next()?.readableBytes ?? 0
                seen.withLock { $0 = first }
                await gate.wait()
                while let piece = try await pieces.next() { seen.withLock { $0 += piece.readableBytes } }
                return .json("\(seen.withLock { $0 })")
            }
        ]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: \(total)\r\n\r\n")
            let sent = Mutex(0)
            let sender = Task {
                for _ in 0..<64 {
                    try await client.send(megabyte)
                    sent.withLock { $0 += 1 << 20 }
                }
            }
            // The kernel's buffers fill and then nothing moves: a sender that waits is the only sign of it.
            try await until { seen.withLock { $0 } > 0 }
            var before = -1
            while before != sent.withLock({ $0 }) {
                before = sent.withLock { $0 }
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(sent.withLock { $0 } < total / 2, "the server read on while the route waited")
            #expect(seen.withLock { $0 } <= 65536)
            gate.open()
            try await sender.value
            let answer = await client.readHeader()
            #expect(answer.hasPrefix("HTTP/1.1 200"))
            #expect(await client.read(8) == "\(total)")
            await client.close()
        }
    }

    @Test("a route cannot send faster than the client reads")
    func responseBackPressure() async throws {
        let written = Mutex(0)
        let piece = megabyte
        let routes: [Route] = [
            .get("much") { _ in
                .stream { writer in
                    for _ in 0..<64 {
                        try await writer.write(piece)
                        written.withLock { $0 += piece.readableBytes }
                    }
                }
            }
        ]
        try await withRoutes(routes) { _, port in
            let client = try await RawClient.connect(port, reads: false)
            try await client.send("GET /much HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            try await until { written.withLock { $0 } > 0 }
            var before = -1
            while before != written.withLock({ $0 }) {
                before = written.withLock { $0 }
                try await Task.sleep(for: .milliseconds(50))
            }
            #expect(written.withLock { $0 } < 32 << 20)
            client.beginReading()
            #expect(await client.readToEnd().utf8.count > 64 << 20)
            #expect(written.withLock { $0 } == 64 << 20)
        }
    }

    @Test("a client that reads nothing of its response is cut off after response_idle_time")
    func stalledReader() async throws {
        var limits = HTTPLimits.patient
        limits.responseIdleTime = .milliseconds(50)
        let piece = megabyte
        let failed = Gate()
        let routes: [Route] = [
            .get("much") { _ in
                .stream { writer in
                    defer { failed.open() }
                    while true { try await writer.write(piece) }
                }
            }
        ]
        try await withRoutes(routes, limits: limits) { listener, port in
            let client = try await RawClient.connect(port, reads: false)
            try await client.send("GET /much HTTP/1.1\r\nHost: a\r\n\r\n")
            await failed.wait()
            try await until { listener.socketCount == 0 }
            await client.close()
        }
    }

    @Test("the last response reaches a client that takes its time: lingering begins when everything is written")
    func slowReader() async throws {
        var limits = HTTPLimits.patient
        limits.lingerTime = .milliseconds(20)
        let big = ByteBuffer(repeating: UInt8(ascii: "x"), count: 16 << 20)
        try await withRoutes([.get("x") { _ in .json(big) }], limits: limits) { _, port in
            let client = try await RawClient.connect(port, reads: false)
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            // Long enough for the fault to show; a correct server passes however long it takes.
            try await Task.sleep(for: .milliseconds(200))
            client.beginReading()
            _ = await client.readHeader()
            #expect(await client.readToEnd().utf8.count == 16 << 20)
        }
    }

    @Test("a body that stops coming is 408, collected or taken piece by piece", arguments: ["/whole", "/pieces"])
    func idleClient(_ path: String) async throws {
        var limits = HTTPLimits.patient
        limits.bodyIdleTime = .milliseconds(50)
        let routes: [Route] = [
            .put("whole") { .json("\(try await $0.body.collect().readableBytes)") },
            .put("pieces") { request in
                for try await _ in request.body {}
                return .json("{}")
            },
        ]
        try await withRoutes(routes, limits: limits) { _, port in
            let answer = try await exchange(port, "PUT \(path) HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            #expect(answer.hasPrefix("HTTP/1.1 408"))
            #expect(answer.contains("body_idle_time (50 ms)"))
        }
    }

    @Test("a body of unknown length has to arrive within body_time, and once it is long may take its time", arguments: [(20, 408), (2, 200)])
    func slowPieces(_ whole: Int, _ status: Int) async throws {
        var limits = HTTPLimits.patient
        limits.bodyTime = .milliseconds(500)
        let routes: [Route] = [
            .put("x") { request in
                var pieces = request.body.pieces(unpacking: nil, whole: whole)
                while try await pieces.next() != nil {}
                return .json("\(pieces.count)")
            }
        ]
        try await withRoutes(routes, limits: limits) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            // Twice as long as may be; a correct server passes however long it takes.
            try await Task.sleep(for: .seconds(1))
            try? await client.send("5\r\nworld\r\n0\r\n\r\n")
            #expect(await client.readHeader().hasPrefix("HTTP/1.1 \(status)"))
            await client.close()
        }
    }

    @Test("a streamed body above its route's limit is 413, by length or by count", arguments: [
        "Content-Length: 11\r\n\r\n12345678901", "Transfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n",
    ])
    func tooLarge(_ rest: String) async throws {
        let routes: [Route] = [
            .put("x", bodyLimit: NamedLimit("x_bytes", 10)) { request in
                for try await _ in request.body {}
                return .json("{}")
            }
        ]
        try await withRoutes(routes) { _, port in
            let answer = try await exchange(port, "PUT /x HTTP/1.1\r\nHost: a\r\n" + rest)
            #expect(answer.hasPrefix("HTTP/1.1 413"))
            #expect(answer.contains("x_bytes (10)"))
        }
    }

    @Test("a small body that nobody wants is discarded and the connection stays; a large one ends it")
    func unwanted() async throws {
        var limits = HTTPLimits.patient
        limits.discardedBodyBytes = 100
        try await withRoutes([.get("x") { _ in .json("{}") }], limits: limits) { _, port in
            let client = try await RawClient.connect(port)
            let small = String(repeating: "s", count: 100)
            try await client.send("GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
            #expect(await client.readHeader().contains("Connection: keep-alive"))
            try await client.send(small + "GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n")
            _ = await client.read(2)
            #expect(await client.readHeader().contains("Connection: close"))
            await client.close()
        }
    }

    @Test("when the agent's memory for its peers is used up, the incomplete body that holds most is dropped, and small requests are served")
    func budget() async throws {
        let routes: [Route] = [.put("x") { .json("\(try await $0.body.collect().readableBytes)") }]
        try await withRoutes(routes, memory: MemoryBudget(limit: 180_000)) { listener, port in
            let greedy = try await RawClient.connect(port)
            try await greedy.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n" + String(repeating: "g", count: 49_900))
            try await until { listener.bodyBytes == 49_900 }
            let modest = try await RawClient.connect(port)
            try await modest.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 49000\r\n\r\n" + String(repeating: "m", count: 48_000))
            try await until { listener.bodyBytes == 97_900 }
            let small = try await exchange(port, "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000\r\n\r\n" + String(repeating: "s", count: 3_000))
            #expect(small.hasPrefix("HTTP/1.1 200"), "\(small)")
            let answer = await greedy.readToEnd()
            #expect(answer.hasPrefix("HTTP/1.1 503"))
            #expect(answer.contains("limits.memory (180000)"))
            try await until { listener.bodyBytes == 48_000 }
            await greedy.close()
            await modest.close()
        }
    }

    @Test("a body that is more than half of the agent's memory for its peers is too large, and the client is not told to try again")
    func largerThanThereWillBeRoomFor() async throws {
        let routes: [Route] = [.put("x") { .json("\(try await $0.body.collect().readableBytes)") }]
        try await withRoutes(routes, memory: MemoryBudget(limit: 100_000)) { _, port in
            let request = "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n" + String(repeating: "l", count: 50_001)
            let answer = try await exchange(port, request)
            #expect(answer.hasPrefix("HTTP/1.1 413") && answer.contains("half of limits.memory (100000)") && !answer.contains("Retry-After"), "\(answer)")
        }
    }

    @Test("the memory of a departed client's body is released, and its route is told")
    func departed() async throws {
        let told = Gate()
        let routes: [Route] = [
            .put("x") { request in
                defer { told.open() }
                return .json("\(try await request.body.collect().readableBytes)")
            }
        ]
        try await withRoutes(routes) { listener, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
            try await until { listener.bodyBytes == 3 }
            await client.close()
            await told.wait()
            try await until { listener.bodyBytes == 0 && listener.socketCount == 0 }
        }
    }

    @Test("what a departed client's body held counts as long as its route holds it")
    func departedWhileHeld() async throws {
        let (held, gate) = (Gate(), Gate())
        let routes: [Route] = [
            .put("x") { request in
                let body = try await request.body.collect()
                held.open()
                // The route's own task is cancelled when its client goes.
                await Task { await gate.wait() }.value
                return .json("\(body.readableBytes)")
            }
        ]
        let memory = MemoryBudget(limit: 100_000)
        try await withRoutes(routes, memory: memory) { listener, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + String(repeating: "x", count: 20_000))
            await held.wait()
            await client.close()
            try await until { listener.socketCount == 0 }
            #expect(listener.bodyBytes == 20_000 && memory.used == 20_000 + BodyMemory.baseBytes)
            gate.open()
            try await until { listener.bodyBytes == 0 && memory.used == 0 }
        }
    }

    @Test("a body counts for the address of its client until the request is answered")
    func addresses() async throws {
        let memory = MemoryBudget(limit: 1_000_000)
        let route = Route.put("x") { request in
            let count = try await request.body.collect().readableBytes
            let held = memory.sums(of: "127.0.0.1").bytes
            return .json("[\(count == 40_000 && held >= count + BodyMemory.baseBytes && held == memory.used)]")
        }
        try await withRoutes([route], memory: memory) { _, port in
            let body = String(repeating: "x", count: 40_000)
            let answer = try await exchange(port, "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n\(body)")
            #expect(answer.contains("[true]"), "\(answer)")
            try await until { memory.origins == 0 }
        }
    }

    @Test("if others leave no room, a small body does not wait, and a larger one is asked to come back")
    func outOfSpace() async throws {
        let memory = MemoryBudget(limit: 100_000)
        let others = memory.register { _ in }
        #expect(others.hold(150_000, owedByPeer: 0) != .evicted)
        var limits = HTTPLimits.patient
        limits.memoryWait = .milliseconds(50)
        try await withRoutes([.put("x") { .json("\(try await $0.body.collect().readableBytes)") }], limits: limits, memory: memory) { _, port in
            for (count, expected) in [(1_000, "HTTP/1.1 200"), (40_000, "HTTP/1.1 503")] {
                let body = String(repeating: "x", count: count)
                let answer = try await exchange(port, "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: \(count)\r\n\r\n\(body)")
                #expect(answer.hasPrefix(expected), "\(answer)")
                #expect(count == 1_000 || answer.contains("Retry-After: 5") && answer.contains("limits.memory (100000)"), "\(answer)")
            }
        }
        withExtendedLifetime(others) {}
    }

    @Test("bytes gathered in blocks are what was appended")
    func gathered() {
        var gathered = GatheredBytes()
        var all: [UInt8] = []
        for (index, count) in [0, 1, 262_143, 262_145, 600_000, 7].enumerated() {
            let some = [UInt8](repeating: UInt8(index), count: count)
            gathered.append(some)
            all += some
        }
        #expect(gathered.count == all.count)
        #expect(gathered.take() == all && gathered.count == 0 && gathered.take().isEmpty)
    }

    @Test("a request that has to give way is answered 503 where nothing of its answer has gone, and cut where some has", arguments: [false, true])
    func givesWay(_ hasBegun: Bool) async throws {
        let routes: [Route] = [
            .get("x") { request in
                let cut = request.connection.cut
                guard hasBegun else {
                    cut()
                    try await SystemTime().sleep(seconds: 3_600)
                    return .json("{}")
                }
                return .stream { writer in
                    try await writer.write(ByteBuffer(string: "some"))
                    cut()
                    try await SystemTime().sleep(seconds: 3_600)
                }
            }
        ]
        try await withRoutes(routes, memory: MemoryBudget(limit: 100_000)) { _, port in
            let answer = try await exchange(port, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
            if hasBegun {
                #expect(answer.hasPrefix("HTTP/1.1 200") && !answer.contains("0\r\n\r\n"), "\(answer)")
            } else {
                #expect(answer.hasPrefix("HTTP/1.1 503") && answer.contains("Retry-After") && answer.contains("limits.memory (100000)"), "\(answer)")
            }
        }
    }
}
