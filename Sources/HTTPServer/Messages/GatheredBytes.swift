import NIOCore

/// Bytes collected piece by piece, in blocks: a growing array would briefly exist twice, and then have as much unused capacity
/// again.
package struct GatheredBytes {
    private static let blockBytes = 256 << 10
    private var blocks: [[UInt8]] = []
    package private(set) var count = 0

    package init() {}

    package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBytes { append($0) } }

    mutating func append(_ piece: ByteBuffer) { piece.withUnsafeReadableBytes { append($0) } }

    private mutating func append(_ bytes: UnsafeRawBufferPointer) {
        var at = 0
        while at < bytes.count {
            if (blocks.last?.count ?? Self.blockBytes) >= Self.blockBytes { blocks.append([]) }
            let end = min(bytes.count, at + Self.blockBytes - blocks[blocks.count - 1].count)
            blocks[blocks.count - 1].append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[at..<end]))
            at = end
        }
        count += bytes.count
    }

    /// Returns all bytes and leaves none. Each block is released as soon as it has been copied.
    package mutating func take() -> [UInt8] {
        defer { (blocks, count) = ([], 0) }
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
