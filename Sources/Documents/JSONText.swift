import Encodings

/// Low-level helpers for JSON text, shared by several readers.
enum JSONText {
    /// Marks, by their highest bit, those of eight bytes that are not plain string text: below 0x20, `"`, `\`, DEL, or not ASCII. Only the lowest
    /// mark is exact; those above it may be false.
    @inline(__always)
    static func firstNotable(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        return ((quote &- ones) | (backslash &- ones) | (word &- (ones &* 0x20)) | word | (word &+ ones)) & (ones &* 0x80)
    }

    /// Length of the UTF-8 sequence that starts at `q` (a byte of 0x80 or more), 0 if it is invalid.
    @inline(__always)
    static func utf8SequenceLength(_ q: UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>) -> Int {
        let lead = q.pointee
        let left = end - q
        if lead < 0xC2 { return 0 }
        if lead < 0xE0 { return left >= 2 && q[1] & 0xC0 == 0x80 ? 2 : 0 }
        if lead < 0xF0 {
            guard left >= 3, q[1] & 0xC0 == 0x80, q[2] & 0xC0 == 0x80 else { return 0 }
            if lead == 0xE0, q[1] < 0xA0 { return 0 }  // overlong
            if lead == 0xED, q[1] >= 0xA0 { return 0 }  // surrogate
            return 3
        }
        guard lead < 0xF5, left >= 4, q[1] & 0xC0 == 0x80, q[2] & 0xC0 == 0x80, q[3] & 0xC0 == 0x80 else { return 0 }
        if lead == 0xF0, q[1] < 0x90 { return 0 }  // overlong
        if lead == 0xF4, q[1] >= 0x90 { return 0 }  // beyond U+10FFFF
        return 4
    }

    /// Four hexadecimal digits as a UTF-16 unit.
    static func hexUnit(_ q: UnsafePointer<UInt8>) -> UInt32? {
        var unit: UInt32 = 0
        for index in 0..<4 {
            guard let digit = Hex.value(of: q[index]) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// Whether the canonical form contains exactly this `\uXXXX`: a control character without a short escape, in lowercase.
    static func isCanonicalUnicodeEscape(_ q: UnsafePointer<UInt8>, _ unit: UInt32) -> Bool {
        guard mustBeUnicodeEscape(UInt8(truncatingIfNeeded: unit)), unit < 0x80 else { return false }
        return !(q[5] >= 0x41 && q[5] <= 0x46)
    }

    @inline(__always)
    static func mustBeUnicodeEscape(_ byte: UInt8) -> Bool {
        byte == 0x7F || (byte < 0x20 && byte != 0x09 && byte != 0x0A && byte != 0x0D)
    }
}

// MARK: - Text that was already checked

// These functions read text that `JSONWalker` accepted in the same call; they still never pass the given end.
extension JSONText {
    /// Moves from a string's opening quote to the position after its closing one, or to the end if there is none. True if the string contains escapes
    /// or, if requested, DEL.
    @inline(__always)
    static func skipCheckedString(_ at: inout UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>, flagDelete: Bool = true) -> Bool {
        var q = at + 1
        var notable = false
        while true {
            while end - q >= 8 {
                let mark = firstNotable(UInt64(littleEndian: UnsafeRawPointer(q).loadUnaligned(as: UInt64.self)))
                if mark != 0 {
                    q += mark.trailingZeroBitCount >> 3
                    break
                }
                q += 8
            }
            guard q < end else { break }
            switch q.pointee {
            case 0x22:
                at = q + 1
                return notable
            case 0x5C:
                notable = true
                q += 2
            case 0x7F:
                if flagDelete { notable = true }
                q += 1
            default: q += 1
            }
        }
        at = end
        return notable
    }

    /// Moves past a number or word.
    @inline(__always)
    static func skipCheckedScalar(_ at: inout UnsafePointer<UInt8>, _ end: UnsafePointer<UInt8>) {
        while at < end {
            switch at.pointee {
            case 0x2C, 0x7D, 0x5D, 0x00...0x20: return
            default: at += 1
            }
        }
    }

    /// The first eight bytes as a number with the same ordering; missing bytes are zero.
    @inline(__always)
    static func orderPrefix(_ key: UnsafeBufferPointer<UInt8>) -> UInt64 {
        guard let base = key.baseAddress else { return 0 }
        if key.count >= 8 { return UInt64(bigEndian: UnsafeRawPointer(base).loadUnaligned(as: UInt64.self)) }
        var prefix: UInt64 = 0
        for index in 0..<key.count { prefix |= UInt64(base[index]) << UInt64(56 - 8 * index) }
        return prefix
    }

    /// Reads one escape, including a surrogate pair, and moves past it.
    static func readCheckedEscape(_ at: inout UnsafePointer<UInt8>) -> UInt32 {
        let letter = at[1]
        guard letter == 0x75 else {
            at += 2
            switch letter {
            case 0x62: return 0x08
            case 0x66: return 0x0C
            case 0x6E: return 0x0A
            case 0x72: return 0x0D
            case 0x74: return 0x09
            default: return UInt32(letter)
            }
        }
        let unit = hexUnit(at + 2) ?? 0xFFFD
        guard unit >= 0xD800, unit < 0xDC00 else {
            at += 6
            return unit
        }
        let low = hexUnit(at + 8) ?? 0xDC00
        at += 12
        return 0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)
    }

    /// Whether an accepted key contains an escaped NUL.
    static func holdsNUL(_ inside: UnsafeBufferPointer<UInt8>) -> Bool {
        var at = 0
        while at < inside.count {
            guard inside[at] == 0x5C else {
                at += 1
                continue
            }
            guard inside[at + 1] == 0x75 else {
                at += 2
                continue
            }
            if inside[(at + 2)..<(at + 6)].allSatisfy({ $0 == 0x30 }) { return true }
            at += 6
        }
        return false
    }

    /// Whether an accepted number fits a double.
    static func isFinite(_ number: UnsafeBufferPointer<UInt8>) -> Bool { Double(String(decoding: number, as: UTF8.self))?.isFinite == true }

    /// Appends the content of a string, unescaped.
    static func appendPlain(_ inside: UnsafeBufferPointer<UInt8>, to out: inout [UInt8]) {
        guard var at = inside.baseAddress else { return }
        let last = at + inside.count
        while at < last {
            let run = at
            while at < last, at.pointee != 0x5C { at += 1 }
            out.append(contentsOf: UnsafeBufferPointer(start: run, count: at - run))
            if at < last { encodeUTF8(readCheckedEscape(&at)) { out.append($0) } }
        }
    }

    @inline(__always)
    static func encodeUTF8(_ scalar: UInt32, _ put: (UInt8) -> Void) {
        switch scalar {
        case 0..<0x80: put(UInt8(scalar))
        case 0x80..<0x800:
            put(UInt8(0xC0 | scalar >> 6))
            put(UInt8(0x80 | scalar & 63))
        case 0x800..<0x10000:
            put(UInt8(0xE0 | scalar >> 12))
            put(UInt8(0x80 | scalar >> 6 & 63))
            put(UInt8(0x80 | scalar & 63))
        default:
            put(UInt8(truncatingIfNeeded: 0xF0 | scalar >> 18))
            put(UInt8(0x80 | scalar >> 12 & 63))
            put(UInt8(0x80 | scalar >> 6 & 63))
            put(UInt8(0x80 | scalar & 63))
        }
    }
}
