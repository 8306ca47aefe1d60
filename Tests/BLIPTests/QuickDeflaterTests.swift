import NIOCore
import TestRandomness
import Testing

@testable import BLIP

/// What the fast levels of compression send can be read by zlib, which every peer has.
@Suite struct QuickDeflaterTests {
    /// Messages of all sorts and lengths, which refer to one another.
    private struct Messages {
        var random: SeededGenerator
        var earlier: [[UInt8]] = [Array("{\"type\":\"reading\",\"sensor\":\"line-3-motor-2\",\"value\":71.25}".utf8)]

        mutating func next() -> [UInt8] {
            let lengths = [3, 40, 400, 2_500, QuickDeflater.blockLength, QuickDeflater.blockLength + 1, 31_000]
            let length = Int.random(in: 1...lengths[Int.random(in: 0..<lengths.count, using: &random)], using: &random)
            let kind = Int.random(in: 0..<4, using: &random)
            var message: [UInt8] = []
            while message.count < length {
                switch kind {
                case 0: message.append(UInt8.random(in: 0...255, using: &random))
                case 1: message += Array(repeating: 7, count: Int.random(in: 1...700, using: &random))
                case 2: message.append(UInt8.random(in: 97...102, using: &random))
                default: message += earlier[Int.random(in: 0..<earlier.count, using: &random)].prefix(300) + [UInt8.random(in: 0...255, using: &random)]
                }
            }
            message.removeLast(message.count - length)
            earlier.append(message)
            if earlier.count > 30 { earlier.removeFirst() }
            return message
        }
    }

    private func inflated(_ inflater: inout Inflater, _ data: ByteBuffer, _ length: Int) -> [UInt8]? {
        var input = Inflater.Input(data, 0, data.readableBytes)
        var output = ByteBuffer()
        guard case .done = inflater.inflate(&input, into: &output, room: length + 1) else { return nil }
        return Array(output.readableBytesView)
    }

    @Test(arguments: [1, 2, 3]) func whatItWritesIsRead(seed: UInt64) {
        var messages = Messages(random: SeededGenerator(seed: seed))
        var deflater = Deflater(level: 3)
        var inflater = Inflater()
        for number in 0..<400 {
            let message = messages.next()
            var sent = ByteBuffer()
            let cut = number % 3 == 0 ? message.count / 3 : 0
            let (first, second) = (ByteBuffer(bytes: message[cut...]), ByteBuffer(bytes: message[..<cut]))
            let isCompressed = deflater.deflate(first, second, into: &sent)
            #expect(isCompressed)
            #expect(sent.readableBytes <= message.count + Deflater.maximumGrowth)
            #expect(inflated(&inflater, sent, message.count) == Array(message[cut...] + message[..<cut]), "message \(number)")
            // It starts afresh, and the reader continues.
            if number % 150 == 149 { deflater.release() }
        }
    }

    @Test func countingAnewLosesNothing() {
        var messages = Messages(random: SeededGenerator(seed: 9))
        var deflater = QuickDeflater(from: QuickDeflater.lastPosition - 100_000)
        var inflater = Inflater()
        for number in 0..<60 {
            let message = Array(messages.next().prefix(QuickDeflater.blockLength))
            var sent = ByteBuffer()
            message.withUnsafeBytes { bytes in
                deflater.deflate(bytes, isLast: true) { room, write in
                    sent.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { $0.baseAddress.map(write) ?? 0 }
                }
            }
            #expect(inflated(&inflater, sent, message.count) == message, "message \(number)")
        }
    }

    @Test func whatIsSaidTwiceCostsLittle() {
        var deflater = Deflater(level: 3)
        let text = (0..<40).map { "{\"sensor\":\"line-\($0)\",\"value\":\($0 * 7919)}" }.joined(separator: ",")
        var sizes: [Int] = []
        for _ in 0..<2 {
            var sent = ByteBuffer()
            _ = deflater.deflate(ByteBuffer(string: text), nil, into: &sent)
            sizes.append(sent.readableBytes)
        }
        #expect(sizes[0] < text.utf8.count / 2)
        #expect(sizes[1] < text.utf8.count / 40)
    }
}
