import Environment
import NIOCore
import NIOEmbedded
import NIOPosix
import Testing

@testable import HTTPServer

/// Which connection is dropped when places for handshakes run short.
@Suite struct ConnectionTableTests {
    private func table(handshakes: Int) -> ConnectionTable {
        var limits = HTTPLimits.patient
        limits.maxHandshakes = handshakes
        return ConnectionTable(limits: limits, memory: .unlimited)
    }

    /// The entry, and the address that gave its place to it.
    private func add(_ table: ConnectionTable, _ address: String, _ loop: EmbeddedEventLoop) throws -> (ConnectionTable.Entry, evicted: ConnectionTable.Entry?) {
        loop.advanceTime(by: .seconds(1))
        let origin = try SocketAddress(ipAddress: address, port: 1).origin
        guard case .taken(let entry, let evicted) = table.add(EmbeddedChannel(loop: loop), from: origin) else {
            throw ChannelError.operationUnsupported
        }
        return (entry, evicted?.entry)
    }

    @Test("the read buffers of a thousand connections take little memory in all, and those of a few are large")
    func readBuffers() {
        let limits = HTTPLimits()
        #expect(limits.readBuffer(among: 1) == limits.readBuffer && limits.readBuffer(among: 60) == limits.readBuffer)
        #expect((1...1_000).reduce(0) { $0 + limits.readBuffer(among: $1) } < 16 << 20)
    }

    @Test("two addresses that hold all places make room for a third, the oldest of them first, and not again for themselves")
    func twoAddresses() throws {
        let loop = EmbeddedEventLoop()
        let table = table(handshakes: 8)
        var first: [ConnectionTable.Entry] = []
        for number in 0..<8 { first.append(try add(table, "10.0.0.\(1 + number % 2)", loop).0) }
        let third = try add(table, "10.0.0.3", loop)
        #expect(third.evicted === first[0])
        for _ in 0..<100 {
            for address in ["10.0.0.1", "10.0.0.2"] {
                let evicted = try add(table, address, loop).evicted
                #expect(evicted?.origin == "10.0.0.1" || evicted?.origin == "10.0.0.2")
            }
        }
        #expect(table.socketCount == 8)
    }

    @Test("the address with the most connections loses the one that has been silent longest")
    func oldest() throws {
        let loop = EmbeddedEventLoop()
        let table = table(handshakes: 4)
        let other = try add(table, "10.0.0.9", loop).0
        let entries = try (0..<3).map { _ in try add(table, "10.0.0.1", loop).0 }
        // Its request has come.
        table.handshakeIsOver(entries[0])
        #expect(try add(table, "10.0.0.1", loop).evicted == nil)
        #expect(try add(table, "10.0.0.2", loop).evicted === entries[1])
        #expect(other.waitingSince != nil)
    }

    @Test("a /64 network of IPv6 counts as one address, an IPv4 address mapped into IPv6 as itself")
    func ipv6() throws {
        let loop = EmbeddedEventLoop()
        let table = table(handshakes: 4)
        let victim = try add(table, "10.0.0.7", loop).0
        #expect(try SocketAddress(ipAddress: "::ffff:10.0.0.7", port: 1).origin == victim.origin)
        for number in 0..<50 {
            let evicted = try add(table, "2001:db8:0:1::\(String(number, radix: 16))", loop).evicted
            #expect(evicted == nil || evicted?.origin == "2001:db8:0:1::/64")
        }
        #expect(try add(table, "2001:db8:0:2::1", loop).evicted?.origin == "2001:db8:0:1::/64")
    }

    /// A handshake that never ends: what a TLS handler does with a client that sends one byte now and then.
    private final class EndlessHandshake: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
    }

    @Test("a TLS handshake that is under way counts, whatever it sends")
    func handshakes() async throws {
        var configuration = HTTPListener.Configuration()
        configuration.limits = .patient
        configuration.limits.maxHandshakes = 3
        configuration.makeLowerHandlers = { [EndlessHandshake()] }
        let listener = try await HTTPListener.bind(
            [.init(try SocketAddress(ipAddress: "127.0.0.1", port: 0))], configuration, group: testGroup, logger: quietLogger()
        ) { _ in .json("{}") }
        let port = listener.boundAddresses.first?.port ?? 0
        let other = try await RawClient.connect(port, from: "127.0.0.3")
        try await until { listener.socketCount == 1 }
        var greedy: [RawClient] = []
        for number in 0..<10 {
            let client = try await RawClient.connect(port)
            try? await client.send("\u{16}")
            greedy.append(client)
            try await until { listener.socketCount == min(number + 2, 3) }
        }
        #expect(await greedy[0].readToEnd() == "", "the oldest of the address that has most")
        try await other.send("\u{16}")
        #expect(listener.socketCount == 3)
        for client in greedy + [other] { await client.close() }
        await listener.drain(within: .milliseconds(100))
    }

    @Test func otherAddressesAreListenedOnAndWhatIsConnectedGoesOn() async throws {
        try await withServer({ _ in .json("{}") }) { listener, port in
            func address(_ host: String) throws -> SocketAddress { try SocketAddress(ipAddress: host, port: 0) }
            func bound() -> [String] { listener.boundAddresses.map(\.shown).sorted() }
            let request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            let client = try await RawClient.connect(port)
            try await client.send(request)
            #expect(await client.readHeader().contains(" 200 "))
            _ = await client.read(2)

            let moved = await listener.listen(on: [try address("127.0.0.2")])
            #expect(moved.bound.map(\.shown) == ["127.0.0.2:\(port)"] && moved.closed.map(\.shown) == ["127.0.0.1:\(port)"] && moved.failures.isEmpty)
            #expect(bound() == ["127.0.0.2:\(port)"])
            await #expect(throws: (any Error).self) { _ = try await RawClient.connect(port) }
            try await client.send(request)
            #expect(await client.readHeader().contains(" 200 "))
            await client.close()

            // One of them is another program's.
            let taken = try await HTTPListener.bind(
                [.init(try SocketAddress(ipAddress: "127.0.0.3", port: port))], .init(), group: testGroup, logger: quietLogger()
            ) { _ in .json("{}") }
            let partly = await listener.listen(on: [try address("127.0.0.3"), try address("127.0.0.2"), try address("127.0.0.1")])
            #expect(partly.failures.map(\.address.shown) == ["127.0.0.3:\(port)"] && partly.closed.isEmpty)
            #expect(bound() == ["127.0.0.1:\(port)", "127.0.0.2:\(port)"])
            await taken.drain(within: .milliseconds(10))
            #expect(try await exchange(port, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").contains(" 200 "))

            let none = await listener.listen(on: [])
            #expect(none.closed.count == 2 && bound().isEmpty)
            // The port stays its own.
            let home = try address("127.0.0.1")
            #expect(await listener.listen(on: [home]).bound.map(\.shown) == ["127.0.0.1:\(port)"])
            await listener.stopAccepting()
            let away = try address("127.0.0.2")
            #expect(await listener.listen(on: [home, away]).bound.isEmpty)
        }
    }
}
