import NIOCore

/// Turns data from a socket into messages. Only a limited number is decoded at once; the rest stays in encoded form, since a short message takes many
/// times its size in memory.
struct WebSocketReader {
    /// Messages that are decoded at once.
    private static let batch = 512
    /// More can accumulate only if the peer has disconnected: then the channel reads everything left in the socket, whether or not it is wanted.
    private static let maximumUnread = 512 << 10
    /// What fits into one socket read is not worth counting.
    private static let notableBytes = 8 << 10

    private var decoder: WebSocketDecoder
    var output = WebSocketDecoder.Output()
    /// No more messages are decoded.
    private var skips = false
    private var unread = CircularBuffer<ByteBuffer>()
    private var unreadBytes = 0

    init(_ decoder: WebSocketDecoder) { self.decoder = decoder }

    /// All received data is in `output`.
    var isEmpty: Bool { unread.isEmpty }

    var hasControl: Bool { output.ping != nil || output.violation != nil || output.close != nil }

    /// Memory for data that is not a complete message yet; 0 if it is small.
    var unfinishedBytes: Int {
        let held = decoder.unfinishedBytes + unreadBytes
        return held >= Self.notableBytes ? held : 0
    }

    /// Only the peer's CLOSE is awaited from now on.
    mutating func skipToClose() {
        skips = true
        decoder.skipToClose()
    }

    /// Accepts data that was read.
    ///
    /// - Returns: false if more is waiting than allowed.
    mutating func take(_ piece: ByteBuffer) -> Bool {
        var piece = piece
        if unread.isEmpty { decode(&piece) }
        guard piece.readableBytes > 0 else { return true }
        guard unreadBytes + piece.readableBytes <= Self.maximumUnread else { return false }
        unreadBytes += piece.readableBytes
        unread.append(piece)
        return true
    }

    /// Decodes the next messages from the waiting data.
    mutating func goOn() {
        while skips || output.messages.count < Self.batch, var piece = unread.popFirst() {
            let before = piece.readableBytes
            decode(&piece)
            unreadBytes -= before - piece.readableBytes
            if piece.readableBytes > 0 { unread.prepend(piece) }
        }
    }

    /// Discards the waiting data.
    mutating func forget() {
        unread.removeAll()
        unreadBytes = 0
    }

    private mutating func decode(_ piece: inout ByteBuffer) {
        decoder.decode(&piece, into: &output, most: skips ? .max : max(0, Self.batch - output.messages.count))
    }
}
