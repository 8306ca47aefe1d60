import NIOCore

/// Bytes collected piece by piece, in blocks that are never copied to grow: a growing array would briefly exist twice, and then have as much unused
/// capacity again. Each block is a quarter as long as what was collected before it, so that little is unused.
package struct GatheredBytes {
    private static let smallestBlock = 4 << 10
    private static let largestBlock = 256 << 10
    private var blocks: [[UInt8]] = []
    /// How much fits into the last block.
    private var room = 0
    package private(set) var count = 0

    package init() {}

    package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBytes { append($0) } }

    mutating func append(_ piece: ByteBuffer) { piece.withUnsafeReadableBytes { append($0) } }

    private mutating func append(_ bytes: UnsafeRawBufferPointer) {
        var rest = bytes[...]
        while !rest.isEmpty {
            if room == 0 {
                room = min(max(Self.smallestBlock, count / 4), Self.largestBlock)
                blocks.append([])
                blocks[blocks.count - 1].reserveCapacity(room)
            }
            let part = rest.prefix(room)
            blocks[blocks.count - 1].append(contentsOf: UnsafeRawBufferPointer(rebasing: part))
            (room, count) = (room - part.count, count + part.count)
            rest = rest.dropFirst(part.count)
        }
    }

    /// Returns all bytes and leaves none. Each block is released as soon as it has been copied.
    package mutating func take() -> [UInt8] {
        defer { (blocks, room, count) = ([], 0, 0) }
        if blocks.count <= 1 { return blocks.popLast() ?? [] }
        return [UInt8](unsafeUninitializedCapacity: count) { out, filled in
            for index in blocks.indices {
                let block = blocks[index]
                blocks[index] = []
                _ = UnsafeMutableBufferPointer(rebasing: out[filled...]).initialize(fromContentsOf: block)
                filled += block.count
            }
        }
    }
}
