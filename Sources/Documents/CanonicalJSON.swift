import Encodings

/// The canonical form of a document's body, from which revision digests are computed (replication.md section 7): no white space; the keys of each
/// object in ascending order of their UTF-8 bytes; numbers as written; strings with the escapes `\" \\ \n \r \t`, `\u00xx` in lowercase for other
/// control characters and DEL, and everything else as plain UTF-8.
public enum CanonicalJSON {
    /// The canonical form; the body itself if it is already canonical. Passing a known `scan` saves a pass.
    public static func bytes(of body: [UInt8], scan: DocumentScan? = nil) throws(JSONError) -> [UInt8] {
        if let scan, scan.isCanonical { return body }
        if scan == nil, try JSONScanner.scanDocument(body).isCanonical { return body }
        return try written(body, keysMayRepeat: scan != nil) ?? body
    }

    /// Checks a document's body as `JSONScanner.scanDocument` does, and also returns its canonical form, in one pass.
    public static func scanned(_ body: [UInt8], unusualKeys: Bool = true) throws(JSONError) -> (scan: DocumentScan, bytes: [UInt8]) {
        var scan: DocumentScan?
        let canonical = try written(body, keysMayRepeat: false, unusualKeys: unusualKeys) { scan = $0 }
        guard let scan else { throw JSONError(.unexpectedEnd, offset: 0, in: UnsafeRawBufferPointer(start: nil, count: 0)) }
        return (scan, canonical ?? body)
    }

    /// The canonical form of a body that was already checked: one pass where `bytes(of:scan:)` needs two. Most bodies are not canonical.
    public static func bytes(ofChecked body: [UInt8]) throws(JSONError) -> [UInt8] { try written(body, keysMayRepeat: true) ?? body }

    /// Nil if the body is canonical.
    private static func written(
        _ body: [UInt8], keysMayRepeat: Bool, unusualKeys: Bool = true, found: (DocumentScan) -> Void = { _ in }
    ) throws(JSONError) -> [UInt8]? {
        try body.withRawBytes { (raw) throws(JSONError) -> [UInt8]? in
            guard
                let walker = try JSONWalker.walk(
                    raw, rootMustBeObject: true, recording: true, keysMayRepeat: keysMayRepeat, unusualKeys: unusualKeys)
            else {
                throw JSONError(.unexpectedEnd, offset: 0, in: raw)
            }
            found(walker.documentScan)
            return walker.isCanonical ? nil : CanonicalWriter.write(walker)
        }
    }
}

/// Writes the canonical form of a text that a recording `JSONWalker` accepted. Containers that are already canonical are copied as a whole; the
/// members of others are collected, sorted and written one by one. Thanks to the record, no byte is read more than a few times, however deeply the
/// text is nested.
private struct CanonicalWriter: ~Copyable {
    /// A member of an object being written.
    private struct Member: BitwiseCopyable {
        /// The first eight bytes of the key, so that most comparisons are one.
        var prefix: UInt64
        /// Position of the key's plain bytes: in the text, or in `plainKeys` if it had escapes.
        var keyStart: UInt32
        var keyCount: UInt32
        var valueStart: UInt32
        /// Index of the first container in the value.
        var container: UInt32
        /// The position after the value, if everything from the key's quote to there is already canonical; else 0.
        var wholeEnd: UInt32 = 0
        var keyWasEscaped: Bool
    }

    private let text: UnsafePointer<UInt8>
    private let textEnd: UnsafePointer<UInt8>
    private let containers: PlainStack<JSONWalker.Container>
    /// Members of all objects being written, innermost last.
    private var members = PlainStack<Member>(capacity: 16)
    /// Keys that had escapes, unescaped.
    private var plainKeys: [UInt8] = []
    private var out: UnsafeMutablePointer<UInt8>
    private let outEnd: UnsafeMutablePointer<UInt8>

    static func write(_ walker: consuming JSONWalker) -> [UInt8] {
        let (start, end, growth) = (walker.start, walker.end, walker.growth)
        var containers = Optional(walker.takeContainers())
        return [UInt8](unsafeUninitializedCapacity: end - start + growth) { buffer, written in
            guard let base = buffer.baseAddress, let containers = containers.take() else { return }
            var writer = CanonicalWriter(start, end, containers, out: base, outEnd: base + (end - start) + growth)
            var at = start
            writer.skipSpace(&at)
            var container = 0
            writer.value(&at, &container)
            written = writer.out - base
        }
    }

    private init(
        _ text: UnsafePointer<UInt8>, _ textEnd: UnsafePointer<UInt8>, _ containers: consuming PlainStack<JSONWalker.Container>,
        out: UnsafeMutablePointer<UInt8>, outEnd: UnsafeMutablePointer<UInt8>
    ) {
        self.text = text
        self.textEnd = textEnd
        self.containers = containers
        self.out = out
        self.outEnd = outEnd
    }

    // MARK: Reading checked text

    @inline(__always)
    private func skipSpace(_ at: inout UnsafePointer<UInt8>) {
        while at < textEnd, at.pointee <= 0x20 { at += 1 }
    }

    @inline(__always)
    private func skipString(_ at: inout UnsafePointer<UInt8>) -> Bool { JSONText.skipCheckedString(&at, textEnd) }

    @inline(__always)
    private func skipScalar(_ at: inout UnsafePointer<UInt8>) { JSONText.skipCheckedScalar(&at, textEnd) }

    // MARK: Writing

    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        precondition(out < outEnd, "canonical JSON grew beyond its bound")
        out.pointee = byte
        out += 1
    }

    @inline(__always)
    private mutating func put(_ from: UnsafePointer<UInt8>, _ count: Int) {
        precondition(count <= outEnd - out, "canonical JSON grew beyond its bound")
        out.update(from: from, count: count)
        out += count
    }

    private mutating func value(_ at: inout UnsafePointer<UInt8>, _ container: inout Int) {
        switch at.pointee {
        case 0x7B, 0x5B:
            let record = containers[container]
            if record.isCanonical {
                put(at, (text + Int(record.end)) - at)
            } else if at.pointee == 0x7B {
                object(at, container + 1)
            } else {
                array(at, container + 1)
            }
            at = text + Int(record.end)
            container = Int(record.next)
        case 0x22:
            let first = at
            if skipString(&at) { rewrite(first, at) } else { put(first, at - first) }
        default:
            let first = at
            skipScalar(&at)
            put(first, at - first)
        }
    }

    private mutating func array(_ opening: UnsafePointer<UInt8>, _ firstContainer: Int) {
        var at = opening + 1
        var container = firstContainer
        put(0x5B)
        skipSpace(&at)
        while at.pointee != 0x5D {
            value(&at, &container)
            skipSpace(&at)
            if at.pointee == 0x2C {
                put(0x2C)
                at += 1
                skipSpace(&at)
            }
        }
        put(0x5D)
    }

    private mutating func object(_ opening: UnsafePointer<UInt8>, _ firstContainer: Int) {
        let firstMember = members.count
        let firstPlainKey = plainKeys.count
        gather(opening + 1, firstContainer)
        sort(from: firstMember)
        put(0x7B)
        var wrote = false
        for index in firstMember..<members.count {
            let member = members[index]
            // Of equal keys the last one counts; they are neighbours after sorting, in their original order.
            if index + 1 < members.count, compare(member, members[index + 1]) == 0 { continue }
            if wrote { put(0x2C) }
            wrote = true
            if member.wholeEnd > 0 {
                put(text + Int(member.keyStart) - 1, Int(member.wholeEnd - member.keyStart) + 1)
                continue
            }
            put(0x22)
            if member.keyWasEscaped {
                // Copied, since writing values may grow `plainKeys`.
                let key = Array(plainKeys[Int(member.keyStart)..<Int(member.keyStart + member.keyCount)])
                key.withUnsafeBufferPointer { escape($0) }
            } else {
                let key = UnsafeBufferPointer(start: text + Int(member.keyStart), count: Int(member.keyCount))
                escape(key)
            }
            put(0x22)
            put(0x3A)
            var at = text + Int(member.valueStart)
            var container = Int(member.container)
            value(&at, &container)
        }
        put(0x7D)
        members.cut(to: firstMember)
        plainKeys.removeSubrange(firstPlainKey...)
    }

    /// Collects the members of an object, starting after its opening bracket.
    private mutating func gather(_ first: UnsafePointer<UInt8>, _ firstContainer: Int) {
        var at = first
        var container = firstContainer
        skipSpace(&at)
        while at.pointee == 0x22 {
            let keyStart = at + 1
            let isPlain = !skipString(&at)
            let key = UnsafeBufferPointer(start: keyStart, count: at - 1 - keyStart)
            let colon = at
            skipSpace(&at)
            var isWhole = isPlain && at == colon
            at += 1  // the colon
            let value = at
            skipSpace(&at)
            isWhole = isWhole && at == value
            var member = Member(
                prefix: 0, keyStart: UInt32(keyStart - text), keyCount: UInt32(key.count), valueStart: UInt32(at - text),
                container: UInt32(container), keyWasEscaped: false)
            switch at.pointee {
            case 0x7B, 0x5B:
                let record = containers[container]
                at = text + Int(record.end)
                container = Int(record.next)
                isWhole = isWhole && record.isCanonical
            case 0x22:
                if skipString(&at) { isWhole = false }
            default: skipScalar(&at)
            }
            if isWhole { member.wholeEnd = UInt32(at - text) }
            if isPlain {
                member.prefix = JSONText.orderPrefix(key)
            } else {
                noteEscapes(of: key, &member)
            }
            members.append(member)
            skipSpace(&at)
            if at.pointee == 0x2C {
                at += 1
                skipSpace(&at)
            }
        }
    }

    /// A key with escapes is compared by its unescaped form.
    private mutating func noteEscapes(of key: UnsafeBufferPointer<UInt8>, _ member: inout Member) {
        guard key.contains(0x5C) else {
            member.prefix = JSONText.orderPrefix(key)
            return
        }
        member.keyWasEscaped = true
        member.keyStart = UInt32(plainKeys.count)
        JSONText.appendPlain(key, to: &plainKeys)
        member.keyCount = UInt32(plainKeys.count) - member.keyStart
        member.prefix = withKey(member) { JSONText.orderPrefix($0) }
    }

    @inline(__always)
    private func withKey<Result>(_ member: Member, _ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if member.keyWasEscaped {
            return plainKeys.withUnsafeBufferPointer {
                body(UnsafeBufferPointer(rebasing: $0[Int(member.keyStart)..<Int(member.keyStart + member.keyCount)]))
            }
        }
        return body(UnsafeBufferPointer(start: text + Int(member.keyStart), count: Int(member.keyCount)))
    }

    @inline(__always)
    private func compare(_ a: Member, _ b: Member) -> Int {
        if a.prefix != b.prefix { return a.prefix < b.prefix ? -1 : 1 }
        return withKey(a) { x in withKey(b) { y in compareBytes(x, y) } }
    }

    /// Sorts by key; equal keys keep their order.
    private mutating func sort(from first: Int) {
        let count = members.count - first
        guard count > 1 else { return }
        if count <= 24 {
            for index in (first + 1)..<members.count {
                let member = members[index]
                var hole = index
                while hole > first, compare(member, members[hole - 1]) < 0 {
                    members[hole] = members[hole - 1]
                    hole -= 1
                }
                if hole != index { members[hole] = member }
            }
        } else {
            let sorted = (first..<members.count).map { members[$0] }.sorted {
                let order = compare($0, $1)
                return order != 0 ? order < 0 : $0.valueStart < $1.valueStart
            }
            for (offset, member) in sorted.enumerated() { members[first + offset] = member }
        }
    }

    /// Writes a string that contains escapes or DEL, from its opening quote up to and including its closing one.
    private mutating func rewrite(_ opening: UnsafePointer<UInt8>, _ behind: UnsafePointer<UInt8>) {
        var at = opening + 1
        let last = behind - 1
        put(0x22)
        while at < last {
            let run = at
            while at < last, at.pointee != 0x5C, at.pointee != 0x7F { at += 1 }
            put(run, at - run)
            guard at < last else { break }
            if at.pointee == 0x7F {
                escape(0x7F)
                at += 1
            } else {
                let scalar = JSONText.readCheckedEscape(&at)
                if scalar < 0x80 { escape(UInt8(scalar)) } else { JSONText.encodeUTF8(scalar) { put($0) } }
            }
        }
        put(0x22)
    }

    /// Writes plain bytes, escaped where necessary.
    @inline(__always)
    private mutating func escape(_ plain: UnsafeBufferPointer<UInt8>) {
        guard let base = plain.baseAddress else { return }
        var at = base
        let last = base + plain.count
        while at < last {
            let run = at
            while at < last, !JSONString.needsEscape(at.pointee) { at += 1 }
            put(run, at - run)
            if at < last {
                escape(at.pointee)
                at += 1
            }
        }
    }

    private mutating func escape(_ byte: UInt8) {
        JSONString.writeEscaped(byte) { put($0) }
    }
}
