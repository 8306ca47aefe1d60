import Interfaces
import NIOCore
import NIOEmbedded
import TestRandomness
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct WebSocketTests {
    @Test func messagesOfOneReadComeTogether() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            try await socket.send((0..<100).flatMap { frame(0x82, [UInt8($0)]) })
            let got = await accepted.receiver.wait { $0.count == 100 }
            #expect(got.messages == (0..<100).map { [UInt8($0)] })
            #expect(got.batches.count < 10)
            await socket.close()
        }
    }

    @Test func writtenMessagesAreUnmaskedFrames() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            try await accepted.transport.send([[1, 2], [], [UInt8](repeating: 9, count: 300)])
            #expect(try await socket.read(6) == [0x82, 2, 1, 2, 0x82, 0])
            let long = try await socket.readFrame()
            #expect(long.first == 0x82)
            #expect(long.payload == [UInt8](repeating: 9, count: 300))
            await socket.close()
        }
    }

    @Test func aPingIsAnsweredWithItsPayload() async throws {
        try await withListener { listener, delegate in
            let (socket, _) = try await upgraded(listener, delegate)
            try await socket.send(frame(0x89, Array("beat".utf8)))
            let pong = try await socket.readFrame()
            #expect(pong.first == 0x8A)
            #expect(pong.payload == Array("beat".utf8))
            await socket.close()
        }
    }

    @Test(arguments: [
        ("text", frame(0x81, Array("hi".utf8)), 1003), ("reserved bit", frame(0xC2, [1]), 1002), ("unmasked", frame(0x82, [1], masked: false), 1002),
        ("oversized", [0x82, 0xFF, 0, 0, 0, 0, 0, 0x20, 0, 0, 1, 2, 3, 4], 1009),
    ] as [(String, [UInt8], UInt16)])
    func violationsCloseWithTheirCode(name: String, wire: [UInt8], code: UInt16) async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            try await socket.send(frame(0x82, [5]) + wire)
            let close = try await socket.readFrame()
            #expect(close.first == 0x88)
            #expect(close.payload.prefix(2) == [UInt8(code >> 8), UInt8(code & 255)])
            #expect(close.payload.count > 10)
            await socket.close()
            let got = await accepted.receiver.wait { $0.end != nil }
            #expect(got.messages == [[5]])
            #expect(got.end?.code == code)
            #expect(got.end?.initiatedLocally == true)
        }
    }

    @Test func thePeersCloseIsEchoedAndReported() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            try await socket.send(frame(0x82, [1]) + frame(0x88, [0x0F, 0xA2] + Array("bye".utf8)) + frame(0x82, [2]))
            let rest = try await socket.readToEnd()
            #expect(rest == [0x88, 2, 0x0F, 0xA2])
            let got = await accepted.receiver.wait { $0.end != nil }
            #expect(got.end == ConnectionEnd(code: 4002, reason: "bye", initiatedLocally: false))
            #expect(got.messages == [[1]])
            await socket.close()
        }
    }

    @Test func aCloseWithoutACodeIs1005() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            try await socket.send(frame(0x88, []))
            #expect(try await socket.readToEnd() == [0x88, 0])
            #expect(await accepted.receiver.end()?.code == 1005)
        }
    }

    @Test func ourCloseWaitsForThePeers() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate)
            accepted.transport.close(code: 1011, reason: "broken")
            let close = try await socket.readFrame()
            #expect(close.payload == [3, 243] + Array("broken".utf8))
            try await socket.send(frame(0x82, [1]) + frame(0x88, [3, 243]))
            #expect(try await socket.readToEnd().isEmpty)
            let got = await accepted.receiver.wait { $0.end != nil }
            #expect(got.end == ConnectionEnd(code: 1011, reason: "broken", initiatedLocally: true))
            #expect(got.messages.isEmpty)
            #expect(got.ends == 1)
            await socket.close()
        }
    }

    @Test func aDropShowsAs1006() async throws {
        try await withListener { listener, delegate in
            let transport = try await client(listener.port).connect()
            let recorder = try await transport.record()
            let accepted = try #require(await delegate.nextTransport())
            accepted.transport.drop()
            let end = await recorder.end()
            #expect(end?.code == 1006, "\(end?.reason ?? "")")
            #expect(end?.initiatedLocally == false)
            #expect(await accepted.receiver.end() == ConnectionEnd(code: 1006, reason: "dropped", initiatedLocally: true))
        }
    }

    @Test func closeCodesTravelBothWays() async throws {
        try await withListener { listener, delegate in
            let first = try await client(listener.port).connect()
            let recorder = try await first.record()
            let accepted = try #require(await delegate.nextTransport())
            first.close(code: 1000, reason: "done")
            #expect(await accepted.receiver.end() == ConnectionEnd(code: 1000, reason: "done", initiatedLocally: false))
            #expect(await recorder.end() == ConnectionEnd(code: 1000, reason: "done", initiatedLocally: true))
            let second = try await client(listener.port).connect()
            let other = try await second.record()
            await delegate.nextTransport()?.transport.close(code: 4001, reason: "later")
            #expect(await other.end() == ConnectionEnd(code: 4001, reason: "later", initiatedLocally: false))
        }
    }

    @Test func silenceIsAskedForASignOfLife() throws {
        let channel = EmbeddedChannel()
        let connection = WebSocketConnection(
            side: .server, channel: channel, protocolName: "x", peerDescription: "peer", securePeer: nil, heartbeat: .seconds(300), limits: TransportLimits(), onEnd: nil
        )
        try channel.pipeline.syncOperations.addHandler(connection)
        channel.connect(to: try SocketAddress(ipAddress: "127.0.0.1", port: 1), promise: nil)
        connection.begin()
        let recorder = Recorder(connection)
        connection.start(recorder)
        func written() throws -> [UInt8] { Array((try channel.readOutbound(as: ByteBuffer.self) ?? ByteBuffer()).readableBytesView) }

        channel.embeddedEventLoop.advanceTime(by: .seconds(299))
        #expect(try written().isEmpty)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(try written() == [0x89, 0])
        channel.embeddedEventLoop.advanceTime(by: .seconds(19))
        try channel.writeInbound(ByteBuffer(bytes: frame(0x8A, [])))
        // The PONG counts as a sign of life, so the next PING is due 300 s after it.
        channel.embeddedEventLoop.advanceTime(by: .seconds(299))
        #expect(try written().isEmpty)
        channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(try written() == [0x89, 0])
        #expect(recorder.now.end == nil)
        channel.embeddedEventLoop.advanceTime(by: .seconds(20))
        #expect(recorder.now.end == ConnectionEnd(code: 1006, reason: "no answer to a PING within 20000 ms", initiatedLocally: false))
        #expect(!channel.isActive)
    }

    @Test func aConnectionThatIsNotReadFromStopsThePeer() async throws {
        try await withListener { listener, delegate in
            let transport = try await client(listener.port).connect()
            let sender = try await transport.record()
            let accepted = try #require(await delegate.nextTransport())
            try await accepted.transport.onLoop { $0.setReading(false) }
            // Write until nothing more is taken, then let the other side read.
            let written = try await transport.onLoop { transport in
                var count = 0
                while transport.isWritable, count < 100_000 {
                    transport.write([ByteBuffer(repeating: 1, count: 16_000)])
                    count += 1
                }
                return count
            }
            #expect(written < 100_000)
            #expect(await sender.wait { !$0.writability.isEmpty }.writability.first == false)
            try await accepted.transport.onLoop { $0.setReading(true) }
            #expect(await accepted.receiver.messages(written).count == written)
            #expect(await sender.wait { $0.writability.last == true }.end == nil)
        }
    }

    @Test func aPeerThatNeverReadsDoesNotGrowMemory() async throws {
        var limits = TransportLimits()
        limits.outboundBytes = 1 << 20
        limits.closeTime = .milliseconds(100)
        try await withListener(limits: limits) { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate, reads: false)
            // A careless caller keeps writing although nothing is writable.
            try await accepted.transport.onLoop { transport in
                for _ in 0..<10_000 { transport.write([ByteBuffer(repeating: 1, count: 16_000)]) }
            }
            let end = await accepted.receiver.end()
            #expect(end?.code == 4001)
            #expect(end?.reason.contains("outbound_bytes is 1048576") == true)
            await socket.close()
        }
    }

    @Test func pingsToAFullConnectionAreNotQueued() async throws {
        try await withListener { listener, delegate in
            let (socket, accepted) = try await upgraded(listener, delegate, reads: false)
            let waiting = try await accepted.transport.onLoop { transport in
                while transport.isWritable { transport.write([ByteBuffer(repeating: 1, count: 16_000)]) }
                return (transport as? WebSocketConnection)?.waitingBytes ?? 0
            }
            for _ in 0..<50 { try await socket.send((0..<100).flatMap { _ in frame(0x89, [UInt8](repeating: 1, count: 125)) }) }
            try await socket.send(frame(0x82, [1]))
            _ = await accepted.receiver.messages(1)
            let now = try await accepted.transport.onLoop { ($0 as? WebSocketConnection)?.waitingBytes ?? 0 }
            #expect(now <= waiting)
            await socket.close()
        }
    }

    @Test func tenThousandMessagesGoRound() async throws {
        let seed = UInt64.random(in: 0 ... .max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let messages = (0..<10_000).map { i in
            [UInt8](repeating: UInt8(i & 255), count: Int.random(in: 0...(i % 500 == 0 ? 100_000 : 300), using: &random))
        }
        try await withListener { listener, delegate in
            let transport = try await client(listener.port).connect()
            let recorder = try await transport.record()
            try #require(await delegate.nextTransport()).receiver.echoes = true
            for start in stride(from: 0, to: messages.count, by: 500) {
                try await transport.send(Array(messages[start..<(start + 500)]))
                _ = await recorder.messages(start)
            }
            let got = await recorder.messages(messages.count)
            // Compared at once: a difference printed in full would fill megabytes.
            let isEqual = got == messages
            #expect(isEqual)
            transport.close(code: 1000, reason: "")
            #expect(await recorder.end()?.code == 1000)
        }
    }

    @Test func whatCameBeforeTheStartIsKept() async throws {
        let early = try await RawServer.start { socket in
            let head = try await socket.readHeader()
            try await socket.send(Array(switching(head).utf8) + frame(0x89, [], masked: false) + frame(0x82, [1], masked: false) + frame(0x88, [0x0F, 0xA1], masked: false))
            _ = try await socket.readToEnd()
        }
        let transport = try await client(early.port).connect()
        let recorder = try await transport.record()
        let got = await recorder.wait { $0.end != nil }
        #expect(got.messages == [[1]])
        #expect(got.end?.code == 4001)
        await early.stop()
    }
}
