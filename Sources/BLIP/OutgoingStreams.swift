import NIOCore

/// Our replies that are streamed. The message itself is in the outbox while there is something of it to send; the supplied bytes are kept here.
struct OutgoingStreams {
    private struct Stream {
        /// Supplied and not yet in a frame.
        var pending: ByteBuffer
        /// Whether nothing more will be supplied.
        var isComplete = false
        /// Whether the owner has been asked for more and has not supplied it.
        var isAsked = false
        /// The message, while there is nothing of it to send.
        var parked: OutgoingMessage?
    }

    private let lowWater: Int
    private var table: [StreamID: Stream] = [:]
    /// Streams for which the owner should be asked for more.
    private var wanting: [StreamID] = []

    init(lowWater: Int) { self.lowWater = lowWater }

    var isEmpty: Bool { table.isEmpty }
    var wantsAny: Bool { !wanting.isEmpty }

    mutating func add(_ id: StreamID, _ bytes: ByteBuffer) { table[id] = Stream(pending: bytes) }

    /// Whether more may be supplied.
    func isOpen(_ id: StreamID) -> Bool { table[id].map { !$0.isComplete } ?? false }

    /// Appends to an open stream. Returns the message if it was parked and has something to send again.
    mutating func supply(_ id: StreamID, _ bytes: ByteBuffer, isLast: Bool) -> OutgoingMessage? {
        guard var stream = table.removeValue(forKey: id) else { return nil }
        if stream.pending.readableBytes == 0 {
            stream.pending = bytes
        } else {
            stream.pending.discardReadBytes()
            stream.pending.writeImmutableBuffer(bytes)
        }
        stream.isComplete = isLast
        var message: OutgoingMessage?
        if isLast || bytes.readableBytes > 0 {
            stream.isAsked = false
            message = stream.parked.take()
            wanting.removeAll { $0 == id }
        }
        table[id] = stream
        return message
    }

    /// Drops what was supplied and not sent, and ends the stream. Returns the number of bytes dropped, and the message if it was parked.
    mutating func cut(_ id: StreamID) -> (forgotten: Int, message: OutgoingMessage?) {
        let forgotten = table[id]?.pending.readableBytes ?? 0
        table[id]?.pending = ByteBuffer()
        return (forgotten, supply(id, ByteBuffer(), isLast: true))
    }

    /// Moves the supplied bytes into the message, which is about to get a frame.
    mutating func lend(to message: inout OutgoingMessage) {
        let id = StreamID(number: message.number)
        guard var stream = table.removeValue(forKey: id) else { return }
        swap(&message.body, &stream.pending)
        message.isOpen = !stream.isComplete
        table[id] = stream
    }

    /// Takes back what the frame left over. Returns true if there is nothing to send, and the message is parked.
    mutating func reclaim(from message: inout OutgoingMessage) -> Bool {
        let id = StreamID(number: message.number)
        guard var stream = table.removeValue(forKey: id) else { return false }
        swap(&message.body, &stream.pending)
        if message.isOpen, stream.pending.readableBytes < lowWater, !stream.isAsked {
            stream.isAsked = true
            wanting.append(id)
        }
        let isIdle = message.isOpen && message.head.readableBytes == 0 && stream.pending.readableBytes == 0
        if isIdle { stream.parked = message }
        table[id] = stream
        return isIdle
    }

    mutating func remove(_ id: StreamID) { table[id] = nil }

    mutating func takeWanting() -> [StreamID] {
        defer { wanting = [] }
        return wanting
    }
}
