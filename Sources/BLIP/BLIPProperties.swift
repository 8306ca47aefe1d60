import Glibc
public import NIOCore

/// Properties of a message: ordered pairs of strings.
///
/// They are kept as the bytes on the wire (`key NUL value NUL …`), so receiving allocates nothing and sending copies once. Keys are compared as
/// bytes; the first of several equal keys counts.
public struct BLIPProperties: Sendable, Equatable, ExpressibleByDictionaryLiteral {
    /// Longest block that ``append(_:_:)`` builds: LiteCore's limit of 102,400, less room for the profile.
    public static let maximumBytes = 102_400 - 256

    /// Always a whole number of pairs.
    var block: ByteBuffer

    public init() {
        block = ByteBuffer()
    }

    public init(dictionaryLiteral elements: (String, String)...) {
        self.init()
        for (key, value) in elements { append(key, value) }
    }

    /// `block` must contain whole pairs only: see `Message.parse`.
    init(checkedBlock block: ByteBuffer) {
        self.block = block
    }

    public var isEmpty: Bool { block.readableBytes == 0 }

    /// Length on the wire, in bytes.
    public var byteCount: Int { block.readableBytes }

    /// The value of `key`. Malformed UTF-8 from a peer is repaired; ``bytes(of:)`` returns the original bytes. Setting replaces the value in place,
    /// and `nil` removes it, as does a value that ``append(_:_:)`` would refuse.
    public subscript(_ key: String) -> String? {
        get {
            withBytes(of: key) { String(decoding: $0, as: UTF8.self) }
        }
        set {
            guard let newValue else { return remove(key) }
            guard let range = find(key) else {
                append(key, newValue)
                return
            }
            guard !newValue.utf8.contains(0), block.readableBytes - range.count + newValue.utf8.count <= Self.maximumBytes else {
                return remove(key)
            }
            var changed = ByteBuffer()
            changed.reserveCapacity(block.readableBytes + newValue.utf8.count)
            let tail = block.readerIndex + range.upperBound
            changed.writeImmutableBuffer(block.slice(0, range.lowerBound))
            changed.writeString(newValue)
            changed.writeImmutableBuffer(block.slice(tail - block.readerIndex, block.writerIndex - tail))
            block = changed
        }
    }

    /// Appends a pair. Refused (false): a key that already exists, a NUL in key or value, and growth beyond ``maximumBytes``. Real peers drop the
    /// whole block or the connection for each of these.
    @discardableResult
    public mutating func append(_ key: String, _ value: String) -> Bool {
        var key = key
        var value = value
        return key.withUTF8 { key in
            value.withUTF8 { append(UnsafeRawBufferPointer(key), UnsafeRawBufferPointer($0)) }
        }
    }

    private mutating func append(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        let count = key.count + value.count + 2
        guard block.readableBytes + count <= Self.maximumBytes,
            PropertyBlock.terminator(key, from: 0) == nil, PropertyBlock.terminator(value, from: 0) == nil,
            block.withUnsafeReadableBytes({ PropertyBlock.find(key, in: $0) }) == nil
        else { return false }
        block.writeWithUnsafeMutableBytes(minimumWritableBytes: max(count, block.readableBytes == 0 ? 200 : 0)) { room in
            room.copyMemory(from: key)
            room[key.count] = 0
            UnsafeMutableRawBufferPointer(rebasing: room[(key.count + 1)...]).copyMemory(from: value)
            room[count - 1] = 0
            return count
        }
        return true
    }

    /// The value's original bytes, sharing memory with the message.
    public func bytes(of key: String) -> ByteBuffer? {
        guard let range = find(key) else { return nil }
        return block.slice(range.lowerBound, range.count)
    }

    /// Calls `body` with the value's bytes.
    public func withBytes<R>(of key: String, _ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R? {
        guard let range = find(key) else { return nil }
        return try block.withUnsafeReadableBytes { try body(UnsafeRawBufferPointer(rebasing: $0[range])) }
    }

    /// All pairs in order, including duplicates.
    public var pairs: [(key: String, value: String)] {
        block.withUnsafeReadableBytes { bytes in
            var result: [(key: String, value: String)] = []
            var position = 0
            while let pair = PropertyBlock.pair(bytes, at: position) {
                result.append((
                    String(decoding: bytes[pair.key], as: UTF8.self),
                    String(decoding: bytes[pair.value], as: UTF8.self)
                ))
                position = pair.value.upperBound + 1
            }
            return result
        }
    }

    private mutating func remove(_ key: String) {
        guard let range = find(key) else { return }
        let start = range.lowerBound - 1 - key.utf8.count
        var changed = block.slice(0, start)
        let tail = range.upperBound + 1
        changed.writeImmutableBuffer(block.slice(tail, block.readableBytes - tail))
        block = changed
    }

    /// The range of the value of `key`, counted from the first byte of the block.
    func find(_ key: String) -> Range<Int>? {
        var key = key
        return key.withUTF8 { wanted in
            block.withUnsafeReadableBytes { PropertyBlock.find(UnsafeRawBufferPointer(wanted), in: $0) }
        }
    }
}

/// Parses `key NUL value NUL …`.
enum PropertyBlock {
    typealias Pair = (key: Range<Int>, value: Range<Int>)

    @inline(__always)
    static func terminator(_ bytes: UnsafeRawBufferPointer, from position: Int) -> Int? {
        guard position < bytes.count, let base = bytes.baseAddress,
            let found = memchr(base + position, 0, bytes.count - position)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }

    /// The pair that starts at `position`; nil at the end or if the pair is truncated.
    @inline(__always)
    static func pair(_ bytes: UnsafeRawBufferPointer, at position: Int) -> Pair? {
        guard let keyEnd = terminator(bytes, from: position), let valueEnd = terminator(bytes, from: keyEnd + 1) else { return nil }
        return (position..<keyEnd, keyEnd + 1..<valueEnd)
    }

    static func find(_ key: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer) -> Range<Int>? {
        var position = 0
        while let pair = pair(bytes, at: position) {
            if equal(key, bytes, pair.key) { return pair.value }
            position = pair.value.upperBound + 1
        }
        return nil
    }

    @inline(__always)
    static func equal(_ key: UnsafeRawBufferPointer, _ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) -> Bool {
        guard key.count == range.count else { return false }
        guard let wanted = key.baseAddress, let base = bytes.baseAddress else { return key.isEmpty }
        return memcmp(wanted, base + range.lowerBound, range.count) == 0
    }
}

extension ByteBuffer {
    /// `length` bytes starting `offset` after the reader index; empty if the buffer is shorter.
    func slice(_ offset: Int, _ length: Int) -> ByteBuffer {
        getSlice(at: readerIndex + offset, length: length) ?? ByteBuffer()
    }
}
