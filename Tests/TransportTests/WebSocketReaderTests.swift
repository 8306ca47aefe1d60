import NIOCore
import Testing

@testable import Transport

/// What a socket delivered becomes messages only so many at a time.
@Suite struct WebSocketReaderTests {
    /// One message each, of two bytes that say which one it is, and eighteen more.
    private func frames(_ numbers: Range<Int>) -> [UInt8] {
        numbers.flatMap { [0x82, 20, UInt8($0 >> 8), UInt8($0 & 0xFF)] + [UInt8](repeating: 7, count: 18) }
    }

    private func numbers(_ messages: [ByteBuffer]) -> [Int] { messages.compactMap { $0.getInteger(at: $0.readerIndex, as: UInt16.self).map(Int.init) } }

    private func reader() -> WebSocketReader { WebSocketReader(WebSocketDecoder(expectsMask: false, limit: 1 << 20)) }

    @Test("messages arrive 512 at a time, in order, wherever the pieces end; the rest stays as bytes, and is counted", arguments: [9, 22_000, 43_999])
    func batches(_ cut: Int) {
        let wire = frames(0..<2_000)
        var reader = reader()
        #expect(reader.take(ByteBuffer(bytes: wire[..<cut])) && reader.take(ByteBuffer(bytes: wire[cut...])))
        #expect(reader.output.messages.count <= 512 && reader.unfinishedBytes >= 1_480 * 22)
        var found: [Int] = []
        while true {
            #expect(reader.output.messages.count <= 512)
            found += numbers(reader.output.messages)
            reader.output.messages = []
            if reader.isEmpty { break }
            reader.goOn()
        }
        #expect(found == Array(0..<2_000))
        #expect(reader.unfinishedBytes == 0)
    }

    @Test("a CLOSE that follows unread messages is found when nothing else is awaited")
    func close() {
        var reader = reader()
        let isReading = reader.take(ByteBuffer(bytes: frames(0..<600) + [0x88, 2, 3, 0xE8]))
        #expect(isReading)
        reader.goOn()
        #expect(reader.output.close == nil && !reader.isEmpty)
        reader.skipToClose()
        reader.goOn()
        #expect(reader.output.close != nil && reader.isEmpty && reader.output.messages.count == 512)
    }

    @Test("no more bytes are accepted than may wait")
    func bound() {
        var reader = reader()
        let piece = ByteBuffer(bytes: frames(0..<10_000))
        var taken = 0
        while taken < 10, reader.take(piece) { taken += 1 }
        #expect(taken == 2)
        reader.forget()
        #expect(reader.isEmpty && reader.unfinishedBytes == 0)
    }
}
