import Encodings

/// Extracts attachments from the text of a `_bulk_docs` request or a document while it is being received, so that their size is not limited by
/// memory. In the remaining text, a number replaces each attachment's bytes.
struct AttachmentSieve {
    /// Where attachments occur.
    enum Place {
        /// At `docs[…]._attachments.NAME.data`.
        case batch
        /// At `_attachments.NAME.data`.
        case document
    }

    enum Event: Equatable {
        case begins
        case bytes([UInt8])
        /// Whether it was valid base64.
        case ends(isWhole: Bool)
    }

    /// An open object or array.
    private struct Level {
        var isArray: Bool
        var expectsKey: Bool
        var key: [UInt8] = []
    }

    private enum Escape {
        case none
        case began
        case unicode(digits: Int, value: UInt32)
    }

    private let place: Place
    /// The nesting depth at which attachments occur.
    private let deepest: Int
    /// The received text, without attachments, since it was last taken.
    private(set) var text: [UInt8] = []
    private var count = 0
    /// The outermost levels, of which the deepest may contain attachments.
    private var levels: [Level] = []
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    /// The key being received; nil if none is.
    private var key: [UInt8]?
    /// Base64 digits of the attachment being received; nil if none is.
    private var digits: [UInt8]?
    private var escape = Escape.none
    private var isWhole = true
    private var isPadded = false

    /// How many digits are decoded at once.
    private static let portion = 64 << 10
    private static let longestKey = 16

    init(_ place: Place) { (self.place, deepest) = (place, place == .batch ? 5 : 3) }

    /// The text has been taken over.
    mutating func dropText() { text.removeAll(keepingCapacity: true) }

    mutating func feed(_ bytes: [UInt8]) -> [Event] {
        var events: [Event] = []
        var at = 0
        while at < bytes.count {
            if digits != nil, case .none = escape {
                // Most of a batch is inside strings.
                let end = bytes[at...].firstIndex { $0 == UInt8(ascii: "\"") || $0 == UInt8(ascii: "\\") } ?? bytes.count
                take(bytes[at..<end], &events)
                at = end
                guard at < bytes.count else { break }
            }
            let byte = bytes[at]
            at += 1
            if digits != nil { carry(byte, &events) } else if isInString { string(byte) } else { structure(byte, &events) }
        }
        return events
    }

    private mutating func string(_ byte: UInt8) {
        text.append(byte)
        if isEscaped {
            isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
            isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
            isInString = false
            if let key, !levels.isEmpty { levels[levels.count - 1].key = key }
            key = nil
            return
        }
        if let length = key?.count, length < Self.longestKey { key?.append(byte) }
    }

    private mutating func structure(_ byte: UInt8, _ events: inout [Event]) {
        // Deeper levels are not tracked.
        let isNear = depth == levels.count && depth > 0
        switch byte {
        case UInt8(ascii: "\"") where isPlace:
            (digits, escape, isWhole, isPadded) = ([], .none, true, false)
            events.append(.begins)
            return
        case UInt8(ascii: "\""):
            isInString = true
            if isNear, levels[depth - 1].expectsKey { key = [] }
        case UInt8(ascii: "{"), UInt8(ascii: "["):
            depth += 1
            if depth <= deepest { levels.append(Level(isArray: byte == UInt8(ascii: "["), expectsKey: byte == UInt8(ascii: "{"))) }
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            if isNear { levels.removeLast() }
            depth = max(0, depth - 1)
        case UInt8(ascii: ":") where isNear: levels[depth - 1].expectsKey = false
        case UInt8(ascii: ",") where isNear: levels[depth - 1].expectsKey = !levels[depth - 1].isArray
        default: break
        }
        text.append(byte)
    }

    /// Whether a string that begins here is an attachment.
    private var isPlace: Bool {
        guard depth == deepest, levels.count == depth, let last = levels.last, !last.expectsKey, last.key.elementsEqual("data".utf8) else { return false }
        switch place {
        case .batch:
            return levels.map(\.isArray) == [false, true, false, false, false] && levels[2].key.elementsEqual("_attachments".utf8)
                && levels[0].key.elementsEqual("docs".utf8)
        case .document: return levels.map(\.isArray) == [false, false, false] && levels[0].key.elementsEqual("_attachments".utf8)
        }
    }

    private mutating func carry(_ byte: UInt8, _ events: inout [Event]) {
        switch escape {
        case .none: if byte == UInt8(ascii: "\\") { escape = .began } else { finish(&events) }
        case .began where byte == UInt8(ascii: "u"): escape = .unicode(digits: 0, value: 0)
        case .began:
            escape = .none
            if byte == UInt8(ascii: "/") { take([byte], &events) } else { isWhole = false }
        case .unicode(let count, let value):
            guard let nibble = Character(Unicode.Scalar(byte)).hexDigitValue else {
                (escape, isWhole) = (.none, false)
                return
            }
            let next = value << 4 | UInt32(nibble)
            if count < 3 {
                escape = .unicode(digits: count + 1, value: next)
            } else {
                escape = .none
                if next < 0x80 { take([UInt8(next)], &events) } else { isWhole = false }
            }
        }
    }

    private mutating func take(_ some: ArraySlice<UInt8>, _ events: inout [Event]) {
        guard isWhole else { return }
        digits?.append(contentsOf: some)
        if let count = digits?.count, count >= Self.portion { decode(count - count % 4, &events) }
    }

    private mutating func decode(_ length: Int, _ events: inout [Event]) {
        guard length > 0, let all = digits else { return }
        let some = Array(all[..<length])
        digits = Array(all[length...])
        guard !isPadded, let bytes = some.withUnsafeBufferPointer({ Base64.decode($0) }) else {
            isWhole = false
            return
        }
        // Nothing may follow base64 padding.
        isPadded = some.last == UInt8(ascii: "=")
        events.append(.bytes(bytes))
    }

    private mutating func finish(_ events: inout [Event]) {
        if isWhole { decode(digits?.count ?? 0, &events) }
        digits = nil
        // `null` makes the document that contains it fail.
        text += Array((isWhole ? "\(count)" : "null").utf8)
        if isWhole { count += 1 }
        events.append(.ends(isWhole: isWhole))
    }
}
