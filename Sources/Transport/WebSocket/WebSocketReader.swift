import NIOCore

/// What comes of a socket, on its way to become messages. Only so many are made at once: what is behind them stays as the bytes that it came as, since a message
/// of few bytes takes many times as many.
struct WebSocketReader {
    /// Messages that are made at once.
    private static let batch = 512
    /// More waits only where the peer has gone: then the channel reads what is left in the socket, whoever wants it.
    private static let maximumUnread = 512 << 10
    /// What fits into one read of the socket is not worth a word.
    private static let notableBytes = 8 << 10

    private var decoder: WebSocketDecoder
    var output = WebSocketDecoder.Output()
    /// Nothing becomes a message any more.
    private var skips = false
    private var unread = CircularBuffer<ByteBuffer>()
    private var unreadBytes = 0

    init(_ decoder: WebSocketDecoder) { self.decoder = decoder }

    /// Everything that came is in `output`.
    var isEmpty: Bool { unread.isEmpty }

    var hasControl: Bool { output.ping != nil || output.violation != nil || output.close != nil }

    /// Memory taken for what is no whole message yet; 0 where that is little.
    var unfinishedBytes: Int {
        let held = decoder.unfinishedBytes + unreadBytes
        return held >= Self.notableBytes ? held : 0
    }

    /// The peer's CLOSE is what is waited for.
    mutating func skipToClose() {
        skips = true
        decoder.skipToClose()
    }

    /// Takes what was read.
    ///
    /// - Returns: false where more waits than may.
    mutating func take(_ piece: ByteBuffer) -> Bool {
        var piece = piece
        if unread.isEmpty { decode(&piece) }
        guard piece.readableBytes > 0 else { return true }
        guard unreadBytes + piece.readableBytes <= Self.maximumUnread else { return false }
        unreadBytes += piece.readableBytes
        unread.append(piece)
        return true
    }

    /// Makes the next messages of what waits.
    mutating func goOn() {
        while skips || output.messages.count < Self.batch, var piece = unread.popFirst() {
            let before = piece.readableBytes
            decode(&piece)
            unreadBytes -= before - piece.readableBytes
            if piece.readableBytes > 0 { unread.prepend(piece) }
        }
    }

    /// Nobody looks at it any more.
    mutating func forget() {
        unread.removeAll()
        unreadBytes = 0
    }

    private mutating func decode(_ piece: inout ByteBuffer) {
        decoder.decode(&piece, into: &output, most: skips ? .max : max(0, Self.batch - output.messages.count))
    }
}
