import Interfaces
import NIOCore
import Testing

@testable import Transport

/// Stands in for TLS: turns every bit around, on both ways.
private final class Inverter: ChannelInboundHandler, ChannelOutboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.fireUserInboundEventTriggered(SecurePeer(certificates: [[1]], summary: "inverted"))
        context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: unwrapInboundIn(data).readableBytesView.map { ~$0 })))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        context.write(wrapOutboundOut(ByteBuffer(bytes: unwrapOutboundIn(data).readableBytesView.map { ~$0 })), promise: promise)
    }
}

@Suite(.timeLimit(.minutes(10))) struct SecureLayerTests {
    @Test func everythingGoesThroughTheSecureLayer() async throws {
        let delegate = TestDelegate()
        var configuration = WebSocketListener.Configuration(interface: "127.0.0.1", port: 0)
        configuration.secureLayer = SecureLayer { _ in [Inverter()] }
        let listener = try await WebSocketListener.bind(configuration, delegate: delegate, group: testGroup, logger: quietLogger())
        var outgoing = WebSocketClient.Configuration(url: try EndpointURL("wss://localhost:\(listener.port)/db"))
        outgoing.secureLayer = SecureLayer { role in
            #expect(role == .client(host: "localhost", port: listener.port))
            return [Inverter()]
        }
        let transport = try await WebSocketClient(outgoing, group: testGroup, environment: .system).connect()
        let recorder = try await transport.record()
        let accepted = try #require(await delegate.nextTransport())
        #expect(accepted.request.securePeer?.certificates == [[1]])
        #expect((transport as? WebSocketConnection)?.securePeer?.summary == "inverted")
        accepted.receiver.echoes = true
        try await transport.send([[1, 2, 3]])
        #expect(await recorder.messages(1) == [[1, 2, 3]])
        var web = HTTPClient(.tcp(host: "127.0.0.1", port: listener.port), group: testGroup)
        web.secureLayer = SecureLayer { _ in [Inverter()] }
        #expect(try await web.request("GET", "/").status == 404)
        await listener.stop(code: 4001)
        #expect(await recorder.end()?.code == 4001)
    }

    @Test func aFailingSecureLayerIsATLSError() async throws {
        let server = try await RawServer.start { _ = try await $0.readToEnd() }
        final class Refuser: ChannelInboundHandler {
            typealias InboundIn = ByteBuffer

            func channelActive(context: ChannelHandlerContext) {
                context.fireChannelActive()
                context.fireErrorCaught(ReplicationError(domain: .tls, code: 5, message: "certificate not trusted"))
            }
        }
        var outgoing = WebSocketClient.Configuration(url: try EndpointURL("wss://127.0.0.1:\(server.port)/db"))
        outgoing.secureLayer = SecureLayer { _ in [Refuser()] }
        let error = await connectionError(WebSocketClient(outgoing, group: testGroup, environment: .system))
        #expect(error == ReplicationError(domain: .tls, code: 5, message: "certificate not trusted"))
        await server.stop()
    }
}
