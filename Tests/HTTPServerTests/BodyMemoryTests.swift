import Environment
import NIOCore
import Testing

@testable import HTTPServer

/// What counts for a request's body before the task that answers has taken any of it, and when its socket is read.
@Suite("Memory of bodies", .timeLimit(.minutes(10)))
struct BodyMemoryTests {
    private static let collecting: [Route] = [.put("x") { .json("\(try await $0.body.collect().readableBytes)") }]

    private func head(_ count: Int) -> String { "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: \(count)\r\nExpect: 100-continue\r\n\r\n" }

    @Test("what a read from the socket may bring counts before it does, and is replaced by what has come; each request with a body counts besides")
    func expected() async throws {
        let memory = MemoryBudget(limit: 1_000_000)
        try await withRoutes(Self.collecting, memory: memory) { listener, port in
            let client = try await RawClient.connect(port)
            try await client.send(head(100_000))
            _ = await client.readHeader()
            #expect(memory.used == BodyMemory.baseBytes + 65_536 && memory.sums(of: "127.0.0.1").owed == 65_536 && listener.bodyBytes == 0)
            try await client.send(String(repeating: "x", count: 10_000))
            try await until { memory.used == BodyMemory.baseBytes + 10_000 + 65_536 && listener.bodyBytes == 10_000 }
            try await client.send(String(repeating: "x", count: 50_000))
            // The rest is all that may come.
            try await until { memory.used == BodyMemory.baseBytes + 100_000 && listener.bodyBytes == 60_000 }
            try await client.send(String(repeating: "x", count: 40_000))
            #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
            #expect(await client.read(6) == "100000")
            await client.close()
            try await until { memory.used == 0 && memory.places == 0 && listener.bodyBytes == 0 }
        }
    }

    @Test("what comes before the task that answers asks for it counts when it comes")
    func unasked() async throws {
        let (memory, gate) = (MemoryBudget(limit: 1_000_000), Gate())
        let route = Route.put("x") { request in
            await gate.wait()
            return .json("\(try await request.body.collect().readableBytes)")
        }
        try await withRoutes([route], memory: memory) { listener, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + String(repeating: "x", count: 500))
            try await until { memory.used == BodyMemory.baseBytes + 500 && listener.bodyBytes == 500 }
            gate.open()
            #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
            await client.close()
            try await until { memory.used == 0 && listener.bodyBytes == 0 }
        }
    }

    @Test("while nothing is left of the agent's memory for its peers, no more of a body is read than a little, and then reading goes on")
    func usedUp() async throws {
        let memory = MemoryBudget(limit: 1_000_000)
        let others = memory.register { _ in }
        _ = others.hold(1_100_000, owedByPeer: 0)
        var limits = HTTPLimits.patient
        limits.memoryWait = .hours(1)
        try await withRoutes(Self.collecting, limits: limits, memory: memory) { _, port in
            let client = try await RawClient.connect(port)
            try await client.send(head(40_000))
            let asked = Task { (header: await client.readHeader(), isUsedUp: memory.isUsedUp) }
            // A small body does not wait, and by its answer the other one would have been asked for.
            for _ in 0..<20 {
                let small = try await exchange(port, "PUT /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "s", count: 1_000))
                #expect(small.hasPrefix("HTTP/1.1 200"), "\(small)")
            }
            others.giveUp()
            let (header, isUsedUp) = await asked.value
            #expect(header.hasPrefix("HTTP/1.1 100") && !isUsedUp, "\(header)")
            try await client.send(String(repeating: "x", count: 40_000))
            #expect(await client.readHeader().hasPrefix("HTTP/1.1 200"))
            await client.close()
            try await until { memory.used == 0 }
        }
    }

    @Test("a body that could not be read within memory_wait is refused, and its client asked to come back")
    func refused() async throws {
        let memory = MemoryBudget(limit: 1_000_000)
        let others = memory.register { _ in }
        _ = others.hold(1_100_000, owedByPeer: 0)
        var limits = HTTPLimits.patient
        limits.memoryWait = .milliseconds(50)
        try await withRoutes(Self.collecting, limits: limits, memory: memory) { _, port in
            let answer = try await exchange(port, head(40_000))
            #expect(answer.hasPrefix("HTTP/1.1 503") && answer.contains("limits.memory (1000000)") && answer.contains("Retry-After: 5"), "\(answer)")
            try await until { memory.used == 1_100_000 }
        }
        withExtendedLifetime(others) {}
    }

    @Test("of bodies that leave no memory for each other the one that holds most is dropped, and the others go on")
    func crowd() async throws {
        let memory = MemoryBudget(limit: 400_000)
        var limits = HTTPLimits.patient
        limits.memoryWait = .hours(1)
        try await withRoutes(Self.collecting, limits: limits, memory: memory) { listener, port in
            var clients: [RawClient] = []
            for (count, all) in [(150_000, 150_000), (60_000, 210_000), (0, 0)] {
                let client = try await RawClient.connect(port)
                clients.append(client)
                try await client.send(head(180_000))
                _ = await client.readHeader()
                if count > 0 { try await client.send(String(repeating: "x", count: count)) }
                try await until { all == 0 || listener.bodyBytes == all }
            }
            // There was room for what had come, but not for what might come.
            let dropped = await clients[0].readToEnd()
            #expect(dropped.hasPrefix("HTTP/1.1 503") && dropped.contains("limits.memory (400000)"), "\(dropped)")
            try await clients[2].send(String(repeating: "x", count: 180_000))
            #expect(await clients[2].readHeader().hasPrefix("HTTP/1.1 200"))
            for client in clients { await client.close() }
            try await until { memory.used == 0 && listener.bodyBytes == 0 }
        }
    }
}
