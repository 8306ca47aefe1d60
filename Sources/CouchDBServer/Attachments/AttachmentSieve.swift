import Encodings

/// Takes the attachments out of the text of a `_bulk_docs` or of a document while it comes, so that it may have as many of them as it likes. In the
/// text, the number of an attachment stands in place of its bytes.
struct AttachmentSieve {
    /// Where attachments stand.
    enum Place {
        /// At `docs[…]._attachments.NAME.data`.
        case batch
        /// At `_attachments.NAME.data`.
        case document
    }

    enum Event: Equatable {
        case begins
        case bytes([UInt8])
        /// Whether it was base64.
        case ends(isWhole: Bool)
    }

    /// An object or array that is open.
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
    /// The depth at which an attachment stands.
    private let deepest: Int
    /// What came, without attachments, since it was dropped.
    private(set) var text: [UInt8] = []
    private var count = 0
    /// The outermost ones: in the deepest of them an attachment stands.
    private var levels: [Level] = []
    private var depth = 0
    private var isInString = false
    private var isEscaped = false
    /// Of the key that comes; nil: none does.
    private var key: [UInt8]?
    /// Digits of base64 of the attachment that comes; nil: none does.
    private var digits: [UInt8]?
    private var escape = Escape.none
    private var isWhole = true
    private var isPadded = false

    /// Digits that are decoded at once.
    private static let portion = 64 << 10
    private static let longestKey = 16

    init(_ place: Place) { (self.place, deepest) = (place, place == .batch ? 5 : 3) }

    /// It was taken elsewhere.
    mutating func dropText() { text.removeAll(keepingCapacity: true) }

    mutating func feed(_ bytes: [UInt8]) -> [Event] {
        var events: [Event] = []
        var at = 0
        while at < bytes.count {
            if digits != nil, case .none = escape {
                // Most of a batch is this.
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
        // Deeper levels are passed over.
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

    /// A string that begins here is an attachment.
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
        // Nothing may come behind the end of base64.
        isPadded = some.last == UInt8(ascii: "=")
        events.append(.bytes(bytes))
    }

    private mutating func finish(_ events: inout [Event]) {
        if isWhole { decode(digits?.count ?? 0, &events) }
        digits = nil
        // Where there is no attachment, the document that has it is refused.
        text += Array((isWhole ? "\(count)" : "null").utf8)
        if isWhole { count += 1 }
        events.append(.ends(isWhole: isWhole))
    }
}
