import Glibc
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import TLS

@Suite(.timeLimit(.minutes(10))) struct SocketTests {
    /// Far more than all buffers hold: a sender that a reader holds up must stop, and nothing may be lost.
    @Test(arguments: [true, false]) func aSlowReaderHoldsUpItsPeer(clientSends: Bool) async throws {
        let servers = try TestServers.get()
        let children = Mutex<[any Channel]>([])
        let server = try await TLSTestServer.start(servers.serverContext(), echoes: false) { channel, _ in
            children.withLock { $0.append(channel) }
        }
        let (client, tap) = try await connectTLS(server.port, servers.clientContext(), keeps: false)
        _ = try await tap.outcome().get()
        try await eventually("the server is connected") { server.accepted.first?.now.completed != nil }
        let accepted = try #require(children.withLock { $0.first })
        let serverTap = try #require(server.accepted.first)
        let (sender, reader, readerTap) = clientSends ? (client, accepted, serverTap) : (accepted, client, tap)
        try await reader.setOption(.autoRead, value: false).get()
        let piece = ByteBuffer(repeating: 42, count: 64 * 1024)
        var sent = 0
        var last: EventLoopFuture<Void> = sender.eventLoop.makeSucceededVoidFuture()
        while sender.isWritable {
            last = sender.writeAndFlush(piece)
            sent += piece.readableBytes
            // Lets the event loop run, so that writability is what it is.
            try await sender.eventLoop.submit {}.get()
            try #require(sent < 64 << 20, "the sender was never held up")
        }
        #expect(readerTap.count < sent)
        // The rest goes at the reader's pace.
        try await reader.setOption(.autoRead, value: true).get()
        for _ in 0..<200 {
            last = sender.writeAndFlush(piece)
            sent += piece.readableBytes
        }
        try await last.get()
        let total = sent
        try await eventually("all \(total) bytes arrive") { readerTap.count == total }
        try? await client.close()
        try await eventually("both ends are closed without an error") { serverTap.now.isInactive && tap.now.isInactive }
        #expect(serverTap.now.errors.isEmpty && tap.now.errors.isEmpty)
        await server.stop()
    }

    @Test func largeTransfersAreEchoedExactly() async throws {
        let servers = try TestServers.get()
        let server = try await TLSTestServer.start(servers.serverContext(), keeps: false)
        let (client, tap) = try await connectTLS(server.port, servers.clientContext())
        let sent = (0..<(4 << 20)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 12) }
        for start in stride(from: 0, to: sent.count, by: 100_000) {
            client.writeAndFlush(ByteBuffer(bytes: sent[start..<min(start + 100_000, sent.count)]), promise: nil)
        }
        try await eventually("everything comes back") { tap.count >= sent.count }
        #expect(tap.now.bytes == sent)
        try? await client.close()
        await server.stop()
    }

    @Test func aCutConnectionIsNotACompleteOne() async throws {
        let servers = try TestServers.get()
        let children = Mutex<[any Channel]>([])
        let server = try await TLSTestServer.start(servers.serverContext()) { channel, _ in children.withLock { $0.append(channel) } }
        let (client, tap) = try await connectTLS(server.port, servers.clientContext())
        try await client.writeAndFlush(ByteBuffer(string: "x"))
        try await eventually("the echo comes") { tap.count == 1 }
        // Below TLS: a FIN without a close_notify.
        let channel = try #require(children.withLock { $0.first })
        try await channel.eventLoop.submit {
            let context = try channel.pipeline.syncOperations.context(handlerType: TLSHandler.self)
            context.close(promise: nil)
        }.get()
        try await eventually("the client is told") { tap.kinds == [.truncated] }
        try? await client.close()
        await server.stop()
    }

    /// Clients that vanish at every stage leave nothing behind.
    @Test func connectKillCyclesLeaveNothing() async throws {
        // Each takes its time under a sanitizer, which needs only a few to see what is wrong with one.
        let cycles = getenv("NIGHTJAR_SANITIZER") == nil ? 10_000 : 500
        let servers = try TestServers.get()
        let context = try servers.serverContext()
        let clientContext = try servers.clientContext { $0.serverAuthentication = ServerAuthentication(unsafelySkipsVerification: true) }
        let handlers = HandlerCensus()
        let server = try await TLSTestServer.start(context, keeps: false) { _, handler in handlers.add(handler) }
        let hello = try firstFlight(clientContext)
        for cycle in 0..<cycles {
            switch cycle % 4 {
            case 0: try kill(try await tlsTestClient().connect(host: tlsTestHost, port: server.port).get())
            case 1, 2:
                let channel = try await tlsTestClient().connect(host: tlsTestHost, port: server.port).get()
                let part = cycle % 4 == 1 ? hello.count / 2 : hello.count
                // On a machine that is short of time the server may have given it up before.
                try? await channel.writeAndFlush(ByteBuffer(bytes: hello.prefix(part)))
                try kill(channel)
            default:
                let (channel, tap) = try await connectTLS(server.port, clientContext, keeps: false)
                let done = channel.eventLoop.makePromise(of: Void.self)
                tap.whenCompleted(done)
                try await done.futureResult.get()
                try kill(channel)
            }
        }
        try await eventually("all handlers are gone") { handlers.alive == 0 }
        #expect(handlers.total == cycles)
        try await eventually("no descriptor of this port is open") { openSockets(port: server.port) == 1 }
        await server.stop()
    }

    /// The bytes that a client begins with.
    private func firstFlight(_ context: TLSContext) throws -> [UInt8] {
        let engine = try TLSEngine(context, endpoint: TLSEndpoint(host: "localhost", port: 1))
        #expect(engine.handshake() == .needsMore)
        return Array(engine.records.outbound.readableBytesView)
    }

    /// Resets the connection, below TLS.
    private func kill(_ channel: any Channel) throws {
        let sockets = try #require(channel as? any SocketOptionProvider)
        channel.eventLoop.execute {
            sockets.setSoLinger(linger(l_onoff: 1, l_linger: 0)).whenComplete { _ in
                if let context = try? channel.pipeline.syncOperations.context(handlerType: TLSHandler.self) {
                    context.close(promise: nil)
                } else {
                    channel.close(promise: nil)
                }
            }
        }
    }
}

/// Counts handlers without keeping them.
private final class HandlerCensus: Sendable {
    private struct Entry: @unchecked Sendable {
        // Unchecked: only whether it is nil is looked at.
        weak var handler: TLSHandler?
    }

    private let entries = Mutex<[Entry]>([])

    func add(_ handler: TLSHandler) {
        let entry = Entry(handler: handler)
        entries.withLock { $0.append(entry) }
    }

    var total: Int { entries.withLock { $0.count } }
    var alive: Int { entries.withLock { $0.count { $0.handler != nil } } }
}

/// Open descriptors of this process that are TCP sockets of a local port.
private func openSockets(port: Int) -> Int {
    (0..<4096).count { descriptor in
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(Int32(descriptor), $0, &length) }
        }
        return result == 0 && address.sin_family == UInt16(AF_INET) && Int(UInt16(bigEndian: address.sin_port)) == port
    }
}
