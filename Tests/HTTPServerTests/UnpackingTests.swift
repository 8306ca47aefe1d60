import Environment
import NIOCore
import Testing

@testable import HTTPServer

/// Bodies that are decompressed while they are read.
@Suite("Bodies that are unpacked", .timeLimit(.minutes(10)))
struct UnpackingTests {
    /// Makes pieces out of nothing, and looks each time whether they are counted already.
    private final class Swelling: BodyUnpacker {
        let memory = 1_000
        let budget: MemoryBudget
        var left = 20
        var made = 0
        var isCountedBefore = true

        init(_ budget: MemoryBudget) { self.budget = budget }

        func feed(_ piece: ByteBuffer) {}

        func nextPiece() throws(HTTPError) -> ByteBuffer? {
            guard left > 0 else { return nil }
            left -= 1
            made += 1_000
            isCountedBefore = isCountedBefore && budget.used >= made + BodyMemory.baseBytes
            return ByteBuffer(repeating: 0x20, count: 1_000)
        }
    }

    /// Makes pieces for ever, and tells when it has made the first one.
    private final class Endless: BodyUnpacker {
        let memory = 1_000
        let hasBegun: Gate
        private var isFed = false

        init(_ hasBegun: Gate) { self.hasBegun = hasBegun }

        func feed(_ piece: ByteBuffer) { isFed = true }

        func nextPiece() throws(HTTPError) -> ByteBuffer? {
            guard isFed else { return nil }
            hasBegun.open()
            return ByteBuffer()
        }
    }

    @Test("a listener that stops does not wait until a body that has arrived is unpacked")
    func stopsUnpacking() async throws {
        let hasBegun = Gate()
        let route = Route.put("x") { request in
            var pieces = request.body.pieces(unpacking: Endless(hasBegun), whole: 0)
            while try await pieces.next() != nil {}
            return .json("[]")
        }
        try await withRoutes([route]) { listener, port in
            let client = try await RawClient.connect(port)
            try await client.send("PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
            await hasBegun.wait()
            async let isDrained: Void = listener.drain(within: .hours(1))
            let answer = await client.readToEnd()
            await client.close()
            await isDrained
            #expect(answer.hasPrefix("HTTP/1.1 503"), "\(answer)")
        }
    }

    @Test("what a body unpacks to counts before it is unpacked, and above half of the agent's memory for its peers it is refused")
    func swelling() async throws {
        let memory = MemoryBudget(limit: 100_000)
        let routes: [Route] = [
            .put("x/:pieces") { request in
                let unpacker = Swelling(memory)
                unpacker.left = Int(try request.parameters.require("pieces")) ?? 0
                let count = try await request.body.bytes(unpacking: unpacker).count
                return .json("[\(count),\(unpacker.isCountedBefore)]")
            }
        ]
        try await withRoutes(routes, memory: memory) { listener, port in
            for (pieces, expected) in [(20, "[20000,true]"), (51, "413")] {
                let answer = try await exchange(port, "PUT /x/\(pieces) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
                #expect(answer.contains(expected), "\(answer)")
            }
            try await until { listener.bodyBytes == 0 && memory.used == 0 }
        }
    }
}
