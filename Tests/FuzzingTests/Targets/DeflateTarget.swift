import NIOCore

@testable import BLIP

extension FuzzTarget {
    /// Compression of what we send: whatever the messages are, zlib gives the same bytes back, and a frame grows by no more than is kept for it.
    static let deflate = FuzzTarget("deflate", longestInput: 1_024) { bytes in
        var input = FuzzInput(bytes)
        var quick = QuickDeflater(from: input.flag() ? QuickDeflater.lastPosition - UInt32(input.short()) : nil)
        var deflater = Deflater(level: Int32(input.pick([3, 1, 2, 6])))
        var quickReader = Inflater()
        var reader = Inflater()
        var earlier: [UInt8] = []
        var total = 0
        while !input.isEmpty, total < 600_000 {
            let message = Self.message(&input, earlier)
            total += message.count + 64
            // No frame is empty.
            guard !message.isEmpty else { continue }
            earlier = Array((earlier + message).suffix(70_000))
            var sent = ByteBuffer()
            let cut = input.flag() ? input.short() % (message.count + 1) : 0
            let isDone = deflater.deflate(ByteBuffer(bytes: message[..<cut]), ByteBuffer(bytes: message[cut...]), into: &sent)
            try hold(isDone, "nothing was written")
            try hold(sent.readableBytes <= message.count + Deflater.maximumGrowth * (1 + message.count / QuickDeflater.blockLength), "\(message.count) bytes became \(sent.readableBytes)")
            try read(&reader, sent, message)
            var block = ByteBuffer()
            let piece = Array(message.prefix(QuickDeflater.blockLength))
            piece.withUnsafeBytes { bytes in
                quick.deflate(bytes, isLast: true) { room, write in
                    block.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { $0.baseAddress.map(write) ?? 0 }
                }
            }
            try read(&quickReader, block, piece)
            if input.byte() == 0xAA { deflater.release() }
        }
    }

    /// Made of pieces of the input, of runs, and of what was sent before.
    private static func message(_ input: inout FuzzInput, _ earlier: [UInt8]) -> [UInt8] {
        var message: [UInt8] = []
        for _ in 0...input.below(8) {
            switch input.below(5) {
            case 0: message += input.piece()
            case 1: message += [UInt8](repeating: input.byte(), count: input.short() % 20_000)
            case 2:
                let from = min(input.short(), earlier.count)
                message += earlier.dropLast(from).suffix(input.short() % 20_000)
            case 3:
                // Bytes without a pattern.
                var state = UInt32(truncatingIfNeeded: input.short()) &* 2_654_435_761 | 1
                for _ in 0..<(input.short() % 20_000) {
                    state ^= state << 13
                    state ^= state >> 17
                    state ^= state << 5
                    message.append(UInt8(truncatingIfNeeded: state >> 8))
                }
            default:
                let piece = input.piece()
                for _ in 0..<(1 + Int(input.byte())) { message += piece }
            }
        }
        return Array(message.prefix(40_000))
    }

    private static func read(_ inflater: inout Inflater, _ data: ByteBuffer, _ message: [UInt8]) throws {
        var input = Inflater.Input(data, 0, data.readableBytes)
        var output = ByteBuffer()
        guard case .done = inflater.inflate(&input, into: &output, room: message.count + 1) else { throw FuzzFinding(description: "zlib does not read \(message.count) bytes to their end") }
        try hold(output.readableBytesView.elementsEqual(message), "zlib reads something else")
    }
}
