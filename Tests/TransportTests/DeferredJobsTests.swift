import Environment
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Transport

/// Work that is done in pieces, and the sockets of its event loop.
@Suite struct DeferredJobsTests {
    private final class Work: Sendable {
        private let state = Mutex((pieces: 0, isOver: false))

        /// One piece is done.
        func goesOn() -> Bool {
            state.withLock { state in
                state.pieces += 1
                return !state.isOver
            }
        }

        /// - Returns: how many pieces were done.
        func end() -> Int {
            state.withLock { state in
                state.isOver = true
                return state.pieces
            }
        }
    }

    private final class Echo: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.writeAndFlush(data, promise: nil) }
    }

    private final class Answer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let arrived: EventLoopPromise<Void>
        init(_ arrived: EventLoopPromise<Void>) { self.arrived = arrived }
        func channelRead(context: ChannelHandlerContext, data: NIOAny) { arrived.succeed() }
        func channelInactive(context: ChannelHandlerContext) { arrived.fail(ChannelError.eof) }
    }

    /// Several connections that always have something left must not keep the others of their loop waiting until they have none: they have no end here.
    @Test(.timeLimit(.minutes(1))) func socketsHaveTheirTurnBetweenPieces() async throws {
        let loop = testGroup.next()
        let work = Work()
        let context = EventLoopContext(loop)
        @Sendable func piece() {
            if work.goesOn() { context.executeAfterIO { piece() } }
        }
        let server = try await ServerBootstrap(group: loop).childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Echo()) }
        }.bind(host: "127.0.0.1", port: 0).get()
        // Also the other side of the connection lives there.
        let arrived = loop.makePromise(of: Void.self)
        for _ in 0..<16 { context.executeAfterIO { piece() } }
        let client = try await ClientBootstrap(group: loop).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Answer(arrived)) }
        }.connect(host: "127.0.0.1", port: server.localAddress?.port ?? 0).get()
        try await client.writeAndFlush(ByteBuffer(string: "hello"))
        try await arrived.futureResult.get()
        #expect(work.end() > 0)
        try await client.close()
        try await server.close()
    }
}
