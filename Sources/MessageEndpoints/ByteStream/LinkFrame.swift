import CZlib
import NIOCore

/// One frame on a byte stream. All numbers are big-endian.
///
/// | bytes | meaning |
/// | --- | --- |
/// | 2 | F5 9A |
/// | 1, 1 | kind, flags |
/// | 4 | session, chosen at random by the side that connects |
/// | 4, 4 | sequence number; the next one that the sender expects |
/// | 2, 2 | segments beyond that one which the sender can take; length of the payload |
/// | 4 | CRC-32 of the bytes before |
/// | n, 4 | payload, exclusive-ored with a stream from session and sequence; CRC-32 of it, begun with the header's. Both absent if n is 0 |
///
/// The payload is scrambled so that an author of documents, who does not know the session, cannot place a frame in one that a receiver would find
/// after noise has corrupted the frame around it.
struct LinkFrame: Equatable, Sendable {
    enum Kind: UInt8, Sendable {
        case open = 1, accept, refuse, data, acknowledge, probe, close, reset
    }

    /// The last segment of a message.
    static let isLast: UInt8 = 1
    /// In an acknowledgement: something is missing, retransmit from there.
    static let asksAgain: UInt8 = 2

    static let magic: (UInt8, UInt8) = (0xF5, 0x9A)
    static let headerBytes = 24
    static let checksumBytes = 4

    var kind: Kind
    var flags: UInt8 = 0
    var session: UInt32
    var sequence: UInt32 = 0
    var acknowledged: UInt32 = 0
    var window: UInt16 = 0
    var payload = ByteBuffer()

    /// Encodes the frame; a payload is at most 65,535 bytes long.
    func write(to buffer: inout ByteBuffer) {
        let start = buffer.writerIndex
        buffer.writeMultipleIntegers(Self.magic.0, Self.magic.1, kind.rawValue, flags)
        buffer.writeMultipleIntegers(session, sequence, acknowledged)
        buffer.writeMultipleIntegers(window, UInt16(payload.readableBytes))
        let header = Self.checksum(0, buffer, at: start, length: Self.headerBytes - 4)
        buffer.writeInteger(header)
        guard payload.readableBytes > 0 else { return }
        let body = buffer.writerIndex
        buffer.writeImmutableBuffer(payload)
        Self.scramble(&buffer, at: body, length: payload.readableBytes, session: session, sequence: sequence)
        buffer.writeInteger(Self.checksum(header, buffer, at: body, length: payload.readableBytes))
    }

    static func checksum(_ seed: UInt32, _ buffer: ByteBuffer, at index: Int, length: Int) -> UInt32 {
        buffer.withUnsafeReadableBytes { bytes in
            let part = UnsafeRawBufferPointer(rebasing: bytes[(index - buffer.readerIndex)..<(index - buffer.readerIndex + length)])
            return UInt32(truncatingIfNeeded: crc32(UInt(seed), part.baseAddress?.assumingMemoryBound(to: UInt8.self), UInt32(length)))
        }
    }

    /// Scrambles or unscrambles: the operation is its own inverse.
    static func scramble(_ buffer: inout ByteBuffer, at index: Int, length: Int, session: UInt32, sequence: UInt32) {
        let offset = index - buffer.readerIndex
        buffer.withUnsafeMutableReadableBytes { bytes in
            var state = UInt64(session) << 32 | UInt64(sequence)
            var at = offset
            while at < offset + length {
                // SplitMix64.
                state &+= 0x9E37_79B9_7F4A_7C15
                var bits = state
                bits = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
                bits = (bits ^ (bits >> 27)) &* 0x94D0_49BB_1331_11EB
                bits ^= bits >> 31
                for place in at..<min(at + 8, offset + length) {
                    bytes[place] ^= UInt8(truncatingIfNeeded: bits)
                    bits >>= 8
                }
                at += 8
            }
        }
    }
}

/// Finds frames in a stream of bytes that may contain anything else. Buffers at most one frame.
struct LinkDecoder {
    /// Bytes skipped since the last valid frame.
    private(set) var unsynchronised = 0
    /// Number of frames, or what looked like frames, with a wrong checksum.
    private(set) var damaged = 0
    /// Payload bytes whose checksum was computed: for tests.
    private(set) var checkedBytes = 0
    /// Payload bytes that may still be checked in vain. A line that corrupts frames wastes no more than it delivers; but a stream of valid headers,
    /// each announcing a long payload, would have the same bytes checked hundreds of times.
    private var patience: Int
    private var buffer = ByteBuffer()
    private let maximumPayload: Int

    init(maximumPayload: Int) {
        self.maximumPayload = maximumPayload
        patience = Self.payloadsInVain * maximumPayload
    }

    /// `payloads_checked_in_vain`: number of longest payloads that may be checked in vain at first; twice the bytes received are added.
    private static let payloadsInVain = 4

    mutating func append(_ bytes: ByteBuffer) {
        patience = min(patience + 2 * bytes.readableBytes, Self.payloadsInVain * max(maximumPayload, bytes.readableBytes))
        if buffer.readableBytes == 0 {
            buffer = bytes
        } else {
            // Not after every few bytes, since the remaining ones are moved.
            if buffer.readerIndex > buffer.readableBytes { buffer.discardReadBytes() }
            buffer.writeImmutableBuffer(bytes)
        }
    }

    /// Buffered bytes.
    var heldBytes: Int { buffer.readableBytes == 0 ? 0 : buffer.storageCapacity }

    /// The next valid frame; nil if more bytes are needed.
    mutating func next() -> LinkFrame? {
        while synchronise() {
            let start = buffer.readerIndex
            guard buffer.readableBytes >= LinkFrame.headerBytes else { return nil }
            let checksum = LinkFrame.checksum(0, buffer, at: start, length: LinkFrame.headerBytes - 4)
            guard checksum == buffer.getInteger(at: start + LinkFrame.headerBytes - 4, as: UInt32.self),
                let length = buffer.getInteger(at: start + 18, as: UInt16.self).map(Int.init), length <= maximumPayload
            else {
                passOver()
                continue
            }
            if length > 0 {
                guard buffer.readableBytes >= LinkFrame.headerBytes + length + LinkFrame.checksumBytes else { return nil }
                let body = start + LinkFrame.headerBytes
                guard patience >= length else {
                    passOver()
                    continue
                }
                checkedBytes += length
                guard LinkFrame.checksum(checksum, buffer, at: body, length: length) == buffer.getInteger(at: body + length, as: UInt32.self) else {
                    patience -= length
                    passOver()
                    continue
                }
            }
            if let frame = take(length) {
                unsynchronised = 0
                return frame
            }
        }
        return nil
    }

    private mutating func take(_ length: Int) -> LinkFrame? {
        guard let (_, _, kind, flags) = buffer.readMultipleIntegers(as: (UInt8, UInt8, UInt8, UInt8).self),
            let (session, sequence, acknowledged) = buffer.readMultipleIntegers(as: (UInt32, UInt32, UInt32).self),
            let (window, _) = buffer.readMultipleIntegers(as: (UInt16, UInt16).self)
        else { return nil }
        buffer.moveReaderIndex(forwardBy: 4)
        var payload = ByteBuffer()
        if length > 0 {
            payload = buffer.readSlice(length: length) ?? payload
            LinkFrame.scramble(&payload, at: payload.readerIndex, length: length, session: session, sequence: sequence)
            buffer.moveReaderIndex(forwardBy: LinkFrame.checksumBytes)
        }
        // From a later version: valid, but without meaning here.
        guard let kind = LinkFrame.Kind(rawValue: kind) else { return nil }
        return LinkFrame(
            kind: kind, flags: flags, session: session, sequence: sequence, acknowledged: acknowledged, window: window, payload: payload)
    }

    /// Not a frame after all: continue after its first byte.
    private mutating func passOver() {
        damaged += 1
        unsynchronised += 1
        buffer.moveReaderIndex(forwardBy: 1)
    }

    /// Skips to a possible start of a frame; false if there is none.
    private mutating func synchronise() -> Bool {
        let skipped = buffer.withUnsafeReadableBytes { bytes -> Int in
            var at = 0
            while at < bytes.count {
                if bytes[at] == LinkFrame.magic.0, at + 1 == bytes.count || bytes[at + 1] == LinkFrame.magic.1 { return at }
                at += 1
            }
            return at
        }
        buffer.moveReaderIndex(forwardBy: skipped)
        unsynchronised += skipped
        return buffer.readableBytes > 1
    }
}
