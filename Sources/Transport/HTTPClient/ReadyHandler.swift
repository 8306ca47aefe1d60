import NIOCore
import Synchronization

extension HTTPClient {
    /// When bodies may be written: at once without a secure layer, otherwise after its handshake.
    final class Ready: Sendable {
        private let future: Mutex<EventLoopFuture<Void>?> = Mutex(nil)
        /// Called with the peer's identity.
        let onSecured: (@Sendable (SecurePeer) -> Void)?

        init(_ onSecured: (@Sendable (SecurePeer) -> Void)?) { self.onSecured = onSecured }

        /// To be completed by the handler.
        func promise(_ eventLoop: any EventLoop) -> EventLoopPromise<Void> {
            let promise = eventLoop.makePromise(of: Void.self)
            future.withLock { $0 = promise.futureResult }
            return promise
        }

        /// - Throws: the error of the handshake.
        func wait() async throws {
            try await future.withLock({ $0 })?.get()
        }
    }

    /// Completes the promise when the secure layer reports the peer.
    final class ReadyHandler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let ready: Ready
        private var promise: EventLoopPromise<Void>?

        init(_ ready: Ready) { self.ready = ready }

        func handlerAdded(context: ChannelHandlerContext) { promise = ready.promise(context.eventLoop) }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            if let peer = event as? SecurePeer {
                ready.onSecured?(peer)
                done(.success(()))
            }
            context.fireUserInboundEventTriggered(event)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            done(.failure(error))
            context.fireErrorCaught(error)
        }

        func channelInactive(context: ChannelHandlerContext) {
            done(.failure(ChannelError.ioOnClosedChannel))
            context.fireChannelInactive()
        }

        func handlerRemoved(context: ChannelHandlerContext) {
            done(.failure(ChannelError.ioOnClosedChannel))
        }

        private func done(_ result: Result<Void, any Error>) {
            promise?.completeWith(result)
            promise = nil
        }
    }
}
