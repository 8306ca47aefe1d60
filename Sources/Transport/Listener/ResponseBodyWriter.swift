import NIOCore

/// Writes the body of a streamed ``ListenerResponse``, in chunks, at the client's pace.
public struct ResponseBodyWriter: Sendable {
    private let channel: any Channel
    private let isChunked: Bool
    private let isDiscarded: Bool

    init(channel: any Channel, isChunked: Bool, isDiscarded: Bool) {
        self.channel = channel
        self.isChunked = isChunked
        self.isDiscarded = isDiscarded
    }

    /// Sends one piece and returns when the socket took it.
    ///
    /// - Throws: when the client is gone.
    public func write(_ piece: ByteBuffer) async throws {
        try Task.checkCancellation()
        guard piece.readableBytes > 0 else { return }
        guard !isDiscarded else { return }
        guard isChunked else {
            try await channel.writeAndFlush(piece)
            return
        }
        var chunk = channel.allocator.buffer(capacity: piece.readableBytes + 12)
        chunk.writeString(String(piece.readableBytes, radix: 16))
        chunk.writeStaticString("\r\n")
        chunk.writeImmutableBuffer(piece)
        chunk.writeStaticString("\r\n")
        try await channel.writeAndFlush(chunk)
    }
}
