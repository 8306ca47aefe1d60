import NIOCore

/// Decodes WebSocket frames (RFC 6455, section 5.2) from the pieces that a socket delivers, and joins fragments.
///
/// Independent of channels and clocks. A complete unmasked message within one piece is not copied; masked ones are unmasked into one buffer
/// for the whole piece.
struct WebSocketDecoder {
    /// Why the peer's frames cannot be accepted; the connection is closed with this code.
    struct Violation: Equatable {
        var code: UInt16
        var reason: String
    }

    /// The contents of one piece.
    struct Output {
        var messages: [ByteBuffer] = []
        /// The payload of the last PING; an endpoint may answer only the most recent one (section 5.5.3).
        var ping: [UInt8]?
        /// The CLOSE frame's payload; anything after it is ignored.
        var close: ByteBuffer?
        var violation: Violation?
    }

    private struct Range {
        /// Offset within the piece (or within the unmasked copy); -1 for the next of the joined messages.
        var start: Int
        var count: Int
    }

    private let expectsMask: Bool
    private let limit: Int
    private let allocator: ByteBufferAllocator

    // The frame being read.
    private var head: [UInt8] = []
    private var opcode: UInt8 = 0
    private var isFinal = false
    private var remaining = 0
    private var key: UInt32 = 0
    private var isMasked = false
    private var phase = 0
    private var insideFrame = false

    // The message being joined, and the control frame being read.
    private var assembly: ByteBuffer?
    private var insideMessage = false
    private var control: [UInt8] = []

    /// After a violation or our own CLOSE only the peer's CLOSE is of interest; everything else is skipped.
    private(set) var skipsToClose = false
    private var seenClose = false
    private var ranges: [Range] = []

    init(expectsMask: Bool, limit: Int, allocator: ByteBufferAllocator = ByteBufferAllocator()) {
        self.expectsMask = expectsMask
        self.limit = limit
        self.allocator = allocator
    }

    /// Memory for a message that is not complete.
    var unfinishedBytes: Int { assembly?.storageCapacity ?? 0 }

    mutating func skipToClose() {
        skipsToClose = true
        assembly = nil
    }

    /// - Parameter most: stops after this many messages, leaving the rest in `input`.
    mutating func decode(_ input: inout ByteBuffer, into output: inout Output, most: Int = .max) {
        guard !seenClose else { return input.moveReaderIndex(to: input.writerIndex) }
        var looked = 0
        defer { input.moveReaderIndex(forwardBy: looked) }
        ranges.removeAll(keepingCapacity: true)
        var joined: [ByteBuffer] = []
        let unmasked: ByteBuffer?
        if expectsMask, !(insideFrame && remaining >= input.readableBytes) {
            var copy = allocator.buffer(capacity: input.readableBytes)
            copy.writeWithUnsafeMutableBytes(minimumWritableBytes: input.readableBytes) { target in
                input.withUnsafeReadableBytes { scan($0, target.baseAddress, &joined, &output, most, &looked) }
            }
            unmasked = copy
        } else {
            _ = input.withUnsafeReadableBytes { scan($0, nil, &joined, &output, most, &looked) }
            unmasked = nil
        }
        guard !ranges.isEmpty else { return }
        output.messages.reserveCapacity(output.messages.count + ranges.count)
        var nextJoined = 0
        for range in ranges {
            if range.start < 0 {
                output.messages.append(joined[nextJoined])
                nextJoined += 1
            } else if let unmasked {
                if let slice = unmasked.getSlice(at: range.start, length: range.count) { output.messages.append(slice) }
            } else if let slice = input.getSlice(at: input.readerIndex + range.start, length: range.count) {
                output.messages.append(slice)
            }
        }
    }

    /// Scans the bytes, appends complete messages to `ranges` and returns how many bytes it unmasked into `target`.
    private mutating func scan(
        _ bytes: UnsafeRawBufferPointer, _ target: UnsafeMutableRawPointer?, _ joined: inout [ByteBuffer], _ output: inout Output, _ most: Int,
        _ looked: inout Int
    ) -> Int {
        var at = 0
        var unmasked = 0
        // Anything after the CLOSE frame is ignored.
        defer { looked = seenClose ? bytes.count : at }
        while at < bytes.count, ranges.count < most || insideFrame {
            if !insideFrame {
                guard let violation = readHead(bytes, &at) else { return unmasked }
                if let violation = violation.value {
                    skipToClose()
                    output.violation = output.violation ?? violation
                }
                insideFrame = true
                if !skipsToClose, opcode < 8 {
                    // The common case: a complete message within this piece.
                    if isFinal, !insideMessage, remaining <= bytes.count - at {
                        if isMasked {
                            if let target, remaining > 0, let base = bytes.baseAddress {
                                Masking.copy(from: base + at, to: target + unmasked, count: remaining, key: key, phase: 0)
                            }
                            ranges.append(Range(start: unmasked, count: remaining))
                            unmasked += remaining
                        } else {
                            ranges.append(Range(start: at, count: remaining))
                        }
                        at += remaining
                        insideFrame = false
                        continue
                    }
                    insideMessage = true
                }
            }
            let count = min(remaining, bytes.count - at)
            if opcode >= 8 {
                takeControl(UnsafeRawBufferPointer(rebasing: bytes[at..<(at + count)]))
            } else if !skipsToClose {
                takeData(UnsafeRawBufferPointer(rebasing: bytes[at..<(at + count)]))
            }
            at += count
            remaining -= count
            phase &+= count
            guard remaining == 0 else { return unmasked }
            insideFrame = false
            if opcode >= 8 {
                finishControl(&output)
                if seenClose { return unmasked }
            } else if !skipsToClose, isFinal {
                insideMessage = false
                joined.append(assembly ?? ByteBuffer())
                assembly = nil
                ranges.append(Range(start: -1, count: 0))
            }
        }
        return unmasked
    }

    private struct Checked {
        var value: Violation?
    }

    /// Parses a frame's header, which may arrive in pieces; nil if more bytes are needed.
    @inline(__always)
    private mutating func readHead(_ bytes: UnsafeRawBufferPointer, _ at: inout Int) -> Checked? {
        if head.isEmpty {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[at...])
            if let (size, checked) = parseHead(rest) {
                at += size
                return checked
            }
            head.append(contentsOf: rest)
            at = bytes.count
            return nil
        }
        while at < bytes.count {
            head.append(bytes[at])
            at += 1
            let buffered = head
            if let (_, checked) = buffered.withUnsafeBytes({ parseHead($0) }) {
                head.removeAll(keepingCapacity: true)
                return checked
            }
        }
        return nil
    }

    @inline(__always)
    private mutating func parseHead(_ bytes: UnsafeRawBufferPointer) -> (Int, Checked)? {
        guard bytes.count >= 2 else { return nil }
        let first = bytes[0]
        let second = bytes[1]
        isMasked = second & 0x80 != 0
        var size = 2
        var length = UInt64(second & 0x7F)
        if length == 126 {
            guard bytes.count >= 4 else { return nil }
            length = UInt64(UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self)))
            size = 4
        } else if length == 127 {
            guard bytes.count >= 10 else { return nil }
            length = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
            size = 10
        }
        if isMasked {
            guard bytes.count >= size + 4 else { return nil }
            key = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: size, as: UInt32.self))
            size += 4
        }
        opcode = first & 0x0F
        isFinal = first & 0x80 != 0
        phase = 0
        control.removeAll(keepingCapacity: true)
        // A frame whose length has the top bit set can never be complete; it is skipped until the close deadline.
        remaining = Int(clamping: length)
        return (size, Checked(value: skipsToClose ? nil : violation(first, length, size: size)))
    }

    @inline(__always)
    private func violation(_ first: UInt8, _ length: UInt64, size: Int) -> Violation? {
        if first == 0x82, isMasked == expectsMask, !insideMessage, length <= UInt64(limit) { return nil }
        return slowViolation(first, length)
    }

    private func slowViolation(_ first: UInt8, _ length: UInt64) -> Violation? {
        if first & 0x70 != 0 {
            return Violation(code: 1002, reason: "reserved bits are set, but no extension such as permessage-deflate was agreed")
        }
        if isMasked != expectsMask {
            return Violation(code: 1002, reason: expectsMask ? "a client's frame has to be masked" : "a server's frame must not be masked")
        }
        switch opcode {
        case 8, 9, 10:
            if !isFinal { return Violation(code: 1002, reason: "a control frame must not be fragmented") }
            if length > 125 { return Violation(code: 1002, reason: "a control frame of \(length) bytes, at most 125 are allowed") }
            return nil
        case 0:
            if !insideMessage { return Violation(code: 1002, reason: "a continuation frame without a beginning") }
        case 1:
            return Violation(code: 1003, reason: "a text message; the replication protocol uses binary messages")
        case 2:
            if insideMessage { return Violation(code: 1002, reason: "a new message inside a fragmented one") }
        default:
            return Violation(code: 1002, reason: "unknown frame type \(opcode)")
        }
        let before = assembly?.readableBytes ?? 0
        if length > UInt64(limit - before) {
            return Violation(code: 1009, reason: "a message of at least \(length &+ UInt64(before)) bytes; message_bytes is \(limit)")
        }
        return nil
    }

    private mutating func takeData(_ bytes: UnsafeRawBufferPointer) {
        // Memory grows with what arrives, not with what a header announces.
        var buffer = assembly ?? allocator.buffer(capacity: min(remaining, 64 * 1024))
        assembly = nil
        if isMasked {
            buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: bytes.count) { target in
                if !bytes.isEmpty, let from = bytes.baseAddress, let to = target.baseAddress {
                    Masking.copy(from: from, to: to, count: bytes.count, key: key, phase: phase)
                }
                return bytes.count
            }
        } else {
            buffer.writeBytes(bytes)
        }
        assembly = buffer
    }

    private mutating func takeControl(_ bytes: UnsafeRawBufferPointer) {
        // Longer ones are violations whose bytes are not needed.
        guard control.count + bytes.count <= 125 else { return }
        for (i, byte) in bytes.enumerated() {
            control.append(isMasked ? byte ^ UInt8(truncatingIfNeeded: key >> (UInt32((phase &+ i) & 3) * 8)) : byte)
        }
    }

    private mutating func finishControl(_ output: inout Output) {
        switch opcode {
        case 8:
            seenClose = true
            output.close = ByteBuffer(bytes: control)
        case 9 where !skipsToClose: output.ping = control
        default: break
        }
    }
}
