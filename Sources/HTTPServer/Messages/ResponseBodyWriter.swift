import NIOCore

/// Writes the body of a streamed ``HTTPResponse`` at the client's pace.
package struct ResponseBodyWriter: Sendable {
    private let exchange: NIOLoopBound<Exchange>
    private let eventLoop: any EventLoop

    init(exchange: NIOLoopBound<Exchange>, eventLoop: any EventLoop) {
        self.exchange = exchange
        self.eventLoop = eventLoop
    }

    /// Sends one piece. Returns once less than `write_high_watermark` is waiting for the client.
    ///
    /// - Throws: if the client has disconnected or read nothing for `response_idle_time`, or if more was written than the
    ///   declared length.
    package func write(_ piece: ByteBuffer) async throws {
        try Task.checkCancellation()
        guard piece.readableBytes > 0 else { return }
        let promise = eventLoop.makePromise(of: Void.self)
        let exchange = exchange
        eventLoop.execute { exchange.value.write(piece, promise) }
        try await promise.futureResult.get()
    }
}
