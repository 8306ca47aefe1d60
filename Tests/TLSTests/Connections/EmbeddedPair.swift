import NIOCore
import NIOEmbedded

@testable import TLS

/// Keeps what comes out of a ``TLSHandler``.
final class Recorder: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    var bytes: [UInt8] = []
    var pieces: [Int] = []
    var completed: TLSHandshakeCompleted?
    var errors: [any Error] = []
    var isInactive = false
    var inputClosed = 0

    var tlsErrors: [TLSError] { errors.compactMap { $0 as? TLSError } }
    var kinds: [TLSError.Kind] { tlsErrors.map(\.kind) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let piece = unwrapInboundIn(data)
        pieces.append(piece.readableBytes)
        bytes += Array(piece.readableBytesView)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let event = event as? TLSHandshakeCompleted { completed = event }
        if case ChannelEvent.inputClosed? = event as? ChannelEvent { inputClosed += 1 }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { errors.append(error) }
    func channelInactive(context: ChannelHandlerContext) { isInactive = true }
}

/// A client and a server without sockets, on one clock; the test carries the bytes.
final class EmbeddedPair {
    struct End {
        let channel: EmbeddedChannel
        let recorder = Recorder()

        init(_ handler: TLSHandler, _ loop: EmbeddedEventLoop) throws {
            channel = EmbeddedChannel(loop: loop)
            channel.allowRemoteHalfClosure = false
            try channel.pipeline.syncOperations.addHandlers([handler, recorder])
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
        }

        func output() throws -> [UInt8] {
            var bytes: [UInt8] = []
            while let piece = try channel.readOutbound(as: ByteBuffer.self) { bytes += Array(piece.readableBytesView) }
            return bytes
        }

        func input(_ bytes: [UInt8]) {
            guard channel.isActive else { return }
            channel.pipeline.fireChannelRead(ByteBuffer(bytes: bytes))
            channel.pipeline.fireChannelReadComplete()
        }

        func send(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }
    }

    let loop = EmbeddedEventLoop()
    let client: End
    let server: End

    init(client clientContext: TLSContext, server serverContext: TLSContext, host: String = "localhost") throws {
        server = try End(TLSHandler(server: serverContext), loop)
        client = try End(TLSHandler(client: clientContext, endpoint: TLSEndpoint(host: host, port: 1)), loop)
    }

    /// Carries bytes both ways until there are none. `cut` may change them: it returns the pieces that arrive.
    func pump(_ cut: (_ bytes: [UInt8], _ isToServer: Bool) -> [[UInt8]] = { bytes, _ in [bytes] }) throws {
        while true {
            let toServer = try client.output()
            for piece in cut(toServer, true) where !piece.isEmpty { server.input(piece) }
            let toClient = try server.output()
            for piece in cut(toClient, false) where !piece.isEmpty { client.input(piece) }
            loop.run()
            if toServer.isEmpty, toClient.isEmpty { return }
        }
    }

    func finish() {
        for end in [client, server] { _ = try? end.channel.finish(acceptAlreadyClosed: true) }
    }
}
