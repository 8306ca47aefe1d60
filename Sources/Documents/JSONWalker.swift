/// One strict pass over a JSON text. It recurses once per nested container, reads strings eight bytes at a time, and can record where containers end,
/// so that a second pass may skip them.
struct JSONWalker: ~Copyable {
    typealias Problem = JSONError.Kind

    /// What is recorded about a container, in order of their start.
    struct Container: BitwiseCopyable {
        /// Offset after the closing bracket.
        var end: UInt32
        /// Index of the first container that starts after this one ends.
        var next: UInt32
        var isCanonical: Bool
    }

    let start: UnsafePointer<UInt8>
    let end: UnsafePointer<UInt8>
    var p: UnsafePointer<UInt8>
    var isCanonical = true
    var mayHoldBlobs = false
    var hasReservedKeys = false
    var isEmpty = false
    /// By how many bytes the canonical form may be longer than the text, at most.
    var growth = 0
    let recording: Bool
    var containers = PlainStack<Container>(capacity: 8)
    let keysMayRepeat: Bool
    let unusualKeys: Bool
    private let deepest: Int
    /// The keys of all open objects, innermost last; without those of nested objects that have ended.
    private var keys = PlainStack<ObjectKey>(capacity: 32)
    /// The key named by `.duplicateKey`.
    private var duplicate: UnsafeBufferPointer<UInt8>?

    private init(start: UnsafePointer<UInt8>, count: Int, recording: Bool, keysMayRepeat: Bool, unusualKeys: Bool) {
        self.start = start
        end = start + count
        p = start
        self.recording = recording
        self.keysMayRepeat = keysMayRepeat
        self.unusualKeys = unusualKeys
        deepest = keysMayRepeat ? JSONLimits.storedDepth : JSONLimits.depth
    }

    var documentScan: DocumentScan {
        DocumentScan(isCanonical: isCanonical, mayHoldBlobs: mayHoldBlobs, hasReservedKeys: hasReservedKeys, isEmpty: isEmpty)
    }

    /// Takes the recorded containers out of the walker.
    mutating func takeContainers() -> PlainStack<Container> {
        var taken = PlainStack<Container>(capacity: 1)
        swap(&taken, &containers)
        return taken
    }

    /// Walks the whole text. nil if it is empty.
    /// - Parameter keysMayRepeat: the text is stored already: what an older version accepted can be read.
    static func walk(
        _ bytes: UnsafeRawBufferPointer, rootMustBeObject: Bool, recording: Bool, keysMayRepeat: Bool, unusualKeys: Bool = true
    ) throws(JSONError) -> JSONWalker? {
        guard bytes.count <= JSONLimits.textBytes else { throw JSONError(.tooLarge, offset: JSONLimits.textBytes, in: bytes) }
        guard let base = bytes.assumingMemoryBound(to: UInt8.self).baseAddress else { return nil }
        var walker = JSONWalker(start: base, count: bytes.count, recording: recording, keysMayRepeat: keysMayRepeat, unusualKeys: unusualKeys)
        do throws(Problem) {
            try walker.text(rootMustBeObject: rootMustBeObject)
        } catch {
            throw JSONError(error, offset: walker.p - base, in: bytes, key: walker.duplicate.map { quoted(ObjectKey.plain($0)) })
        }
        return walker
    }

    private mutating func text(rootMustBeObject: Bool) throws(Problem) {
        skipSpace()
        guard p < end else { throw .unexpectedEnd }
        if rootMustBeObject, p.pointee != 0x7B { throw .rootNotObject }
        try value(depth: 1)
        skipSpace()
        guard p == end else { throw .trailingText }
    }

    @inline(__always)
    private mutating func skipSpace() {
        if p < end, p.pointee <= 0x20 { skipSpaceSlowly() }
    }

    @inline(never)
    private mutating func skipSpaceSlowly() {
        var q = p
        while q < end, q.pointee == 0x20 || q.pointee == 0x0A || q.pointee == 0x0D || q.pointee == 0x09 { q += 1 }
        if q != p { isCanonical = false }
        p = q
    }

    // MARK: Values

    @inline(__always)
    private mutating func value(depth: Int) throws(Problem) {
        guard p < end else { throw .unexpectedEnd }
        switch p.pointee {
        case 0x22: _ = try string()
        case 0x30...0x39, 0x2D: try number()
        case 0x7B: try object(depth: depth)
        case 0x5B: try array(depth: depth)
        case 0x74: try word(0x6575_7274, count: 4)  // "true", little-endian
        case 0x6E: try word(0x6C6C_756E, count: 4)  // "null"
        case 0x66: try falseWord()
        default: throw .unexpectedCharacter
        }
    }

    @inline(__always)
    private mutating func word(_ letters: UInt32, count: Int) throws(Problem) {
        guard end - p >= 4 else { throw .badLiteral }
        guard UInt32(littleEndian: UnsafeRawPointer(p).loadUnaligned(as: UInt32.self)) == letters else { throw .badLiteral }
        p += count
    }

    private mutating func falseWord() throws(Problem) {
        guard end - p >= 5, p[4] == 0x65 else { throw .badLiteral }
        try word(0x736C_6166, count: 5)  // "fals"
    }

    private mutating func number() throws(Problem) {
        let first = p
        var q = p
        var exponent: UnsafePointer<UInt8>?
        defer { p = q }
        if q.pointee == 0x2D { q += 1 }
        guard q < end, isDigit(q.pointee) else { throw .badNumber }
        if q.pointee == 0x30 {
            q += 1
            if q < end, isDigit(q.pointee) { throw .badNumber }
        } else {
            repeat { q += 1 } while q < end && isDigit(q.pointee)
        }
        if q < end, q.pointee == 0x2E {
            q += 1
            guard q < end, isDigit(q.pointee) else { throw .badNumber }
            repeat { q += 1 } while q < end && isDigit(q.pointee)
        }
        if q < end, q.pointee | 0x20 == 0x65 {
            q += 1
            if q < end, q.pointee == 0x2B || q.pointee == 0x2D { q += 1 }
            guard q < end, isDigit(q.pointee) else { throw .badNumber }
            exponent = q
            repeat { q += 1 } while q < end && isDigit(q.pointee)
        }
        // Most numbers are far from the limit; stored numbers remain readable.
        if q - first < 200, exponent.map({ q - $0 <= 2 }) ?? true { return }
        guard keysMayRepeat || JSONText.isFinite(UnsafeBufferPointer(start: first, count: q - first)) else {
            q = first
            throw .notFinite
        }
    }

    private mutating func array(depth: Int) throws(Problem) {
        guard depth <= deepest else { throw .tooDeep }
        let record = open()
        p += 1
        skipSpace()
        guard p < end else { throw .unexpectedEnd }
        if p.pointee == 0x5D {
            p += 1
            close(record)
            return
        }
        while true {
            try value(depth: depth + 1)
            skipSpace()
            guard p < end else { throw .unexpectedEnd }
            if p.pointee == 0x2C {
                p += 1
                skipSpace()
            } else if p.pointee == 0x5D {
                p += 1
                close(record)
                return
            } else {
                throw .expectedCommaOrEnd
            }
        }
    }

    private mutating func object(depth: Int) throws(Problem) {
        guard depth <= deepest else { throw .tooDeep }
        let record = open()
        p += 1
        skipSpace()
        guard p < end else { throw .unexpectedEnd }
        if p.pointee == 0x7D {
            if depth == 1 { isEmpty = true }
            p += 1
            close(record)
            return
        }
        var previous = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
        let firstKey = keys.count
        /// If keys are in ascending order as written, they are all different.
        var ascends = true
        while true {
            guard p < end else { throw .unexpectedEnd }
            guard p.pointee == 0x22 else { throw .expectedKey }
            let first = p + 1
            let escaped = try string()
            let key = UnsafeBufferPointer(start: first, count: p - 1 - first)
            if !unusualKeys, key.isEmpty || escaped && JSONText.holdsNUL(key) {
                p = first - 1
                throw key.isEmpty ? .emptyKey : .nulInKey
            }
            if escaped {
                isCanonical = false
                mayHoldBlobs = true
                ascends = false
            } else if ascends, previous.baseAddress != nil, compareBytes(previous, key) >= 0 {
                isCanonical = false
                ascends = false
            }
            previous = key
            if !keysMayRepeat {
                guard keys.count < JSONLimits.openKeys else {
                    p = first - 1
                    throw .tooManyKeys
                }
                keys.append(ObjectKey(key, from: start, isEscaped: escaped))
            }
            noteKey(key, depth: depth)
            skipSpace()
            guard p < end else { throw .unexpectedEnd }
            guard p.pointee == 0x3A else { throw .expectedColon }
            p += 1
            skipSpace()
            try value(depth: depth + 1)
            skipSpace()
            guard p < end else { throw .unexpectedEnd }
            if p.pointee == 0x2C {
                p += 1
                skipSpace()
            } else if p.pointee == 0x7D {
                if !keysMayRepeat {
                    if !ascends { try refuseDuplicates(from: firstKey) }
                    keys.cut(to: firstKey)
                }
                p += 1
                close(record)
                return
            } else {
                throw .expectedCommaOrEnd
            }
        }
    }

    private mutating func refuseDuplicates(from first: Int) throws(Problem) {
        guard let found = keys.withElements(from: first, { ObjectKey.duplicate(in: $0, of: start) }) else { return }
        let key = UnsafeBufferPointer(start: start + Int(found.start), count: Int(found.count))
        duplicate = key
        p = start + Int(found.start) - 1
        throw .duplicateKey
    }

    @inline(__always)
    private mutating func noteKey(_ key: UnsafeBufferPointer<UInt8>, depth: Int) {
        guard let first = key.first else { return }
        if first == 0x40, key.count == 5, key[1] == 0x74, key[2] == 0x79, key[3] == 0x70, key[4] == 0x65 {
            mayHoldBlobs = true
        }
        if depth == 1, first == 0x5F || first == 0x5C { noteTopLevelKey(key) }
    }

    @inline(never)
    private mutating func noteTopLevelKey(_ key: UnsafeBufferPointer<UInt8>) {
        if key[0] == 0x5F {
            hasReservedKeys = true
            if key.elementsEqual("_attachments".utf8) { mayHoldBlobs = true }
        } else if key.count >= 6, key[1] == 0x75, key[2] == 0x30, key[3] == 0x30, key[4] == 0x35, key[5] | 0x20 == 0x66 {
            hasReservedKeys = true  // "\u005f" is an underscore too
        }
    }

    // MARK: Containers

    @inline(__always)
    private mutating func open() -> (index: Int, outer: Bool) {
        guard recording else { return (0, true) }
        let opened = (containers.count, isCanonical)
        containers.append(Container(end: 0, next: 0, isCanonical: false))
        isCanonical = true
        return opened
    }

    @inline(__always)
    private mutating func close(_ record: (index: Int, outer: Bool)) {
        guard recording else { return }
        containers[record.index] = Container(end: UInt32(p - start), next: UInt32(containers.count), isCanonical: isCanonical)
        isCanonical = isCanonical && record.outer
    }

    // MARK: Strings

    /// Reads a string from its opening quote to the position after its closing one. True if it contains an escape.
    @inline(__always)
    private mutating func string() throws(Problem) -> Bool {
        var q = p + 1
        while end - q >= 8 {
            let mark = JSONText.firstNotable(UInt64(littleEndian: UnsafeRawPointer(q).loadUnaligned(as: UInt64.self)))
            if mark == 0 {
                q += 8
                continue
            }
            q += mark.trailingZeroBitCount >> 3
            if q.pointee == 0x22 {
                p = q + 1
                return false
            }
            break
        }
        p = q
        return try restOfString()
    }

    /// Continues from any byte inside a string.
    private mutating func restOfString() throws(Problem) -> Bool {
        var q = p
        defer { p = q }
        var escaped = false
        while q < end {
            let byte = q.pointee
            if byte >= 0x80 {
                let length = JSONText.utf8SequenceLength(q, end)
                guard length > 0 else { throw .badUTF8 }
                q += length
            } else if byte == 0x22 {
                q += 1
                return escaped
            } else if byte == 0x5C {
                escaped = true
                try escape(&q)
            } else if byte < 0x20 {
                throw .controlCharacter
            } else {
                if byte == 0x7F {
                    isCanonical = false
                    growth += 5
                }
                q += 1
                // After a special character, plain text usually follows again.
                while end - q >= 8 {
                    let mark = JSONText.firstNotable(UInt64(littleEndian: UnsafeRawPointer(q).loadUnaligned(as: UInt64.self)))
                    guard mark == 0 else {
                        q += mark.trailingZeroBitCount >> 3
                        break
                    }
                    q += 8
                }
            }
        }
        throw .unexpectedEnd
    }

    private mutating func escape(_ q: inout UnsafePointer<UInt8>) throws(Problem) {
        guard end - q >= 2 else { throw .unexpectedEnd }
        switch q[1] {
        case 0x22, 0x5C, 0x6E, 0x72, 0x74: q += 2  // \" \\ \n \r \t
        case 0x2F:
            isCanonical = false
            q += 2
        case 0x62, 0x66:  // \b \f
            isCanonical = false
            growth += 4
            q += 2
        case 0x75:
            guard end - q >= 6 else { throw .badEscape }
            guard let unit = JSONText.hexUnit(q + 2) else { throw .badEscape }
            if unit >= 0xD800, unit < 0xE000 {
                guard unit < 0xDC00, end - q >= 12, q[6] == 0x5C, q[7] == 0x75, let low = JSONText.hexUnit(q + 8),
                    low >= 0xDC00, low < 0xE000
                else { throw .loneSurrogate }
                isCanonical = false
                q += 12
            } else {
                if !JSONText.isCanonicalUnicodeEscape(q, unit) { isCanonical = false }
                q += 6
            }
        default: throw .badEscape
        }
    }
}

@inline(__always)
func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }
