import Encodings

/// Applies a delta to the text of a checked body. Parsed into values, a body of one megabyte may take sixty: instead, unchanged text is copied, and
/// only the new body is allocated.
struct DeltaText {
    private let text: UnsafeBufferPointer<UInt8>
    /// End offsets of large values, as far as they were encountered.
    private var ends: [Int: Int]
    private var new: [UInt8] = []

    /// Size in bytes above which the end of an object or array is determined in advance.
    private static let large = 4 << 10

    /// - Parameter extra: by how many bytes the new body may be longer.
    static func apply(_ delta: JSONObject, to old: UnsafeBufferPointer<UInt8>, adding extra: Int) throws(JSONDelta.Failure) -> [UInt8] {
        let start = old.skippingJSONSpace(0)
        guard start < old.count, old[start] == UInt8(ascii: "{") else { throw .corrupt("a body and its delta are JSON objects") }
        let isNested = delta.members.contains { if case .object(let inside) = $0.value { !inside.isEmpty } else { false } }
        var work = DeltaText(text: old, ends: isNested ? ends(in: old, from: start) : [:])
        work.new.reserveCapacity(old.count + extra)
        // If the object changes, its end is found along the way.
        _ = try work.apply(.object(delta), to: start..<(delta.isEmpty ? old.endOfJSONValue(start) : old.count))
        return work.new
    }

    private init(text: UnsafeBufferPointer<UInt8>, ends: [Int: Int]) { (self.text, self.ends) = (text, ends) }

    /// Everything around a change is skipped at each nesting level: without known ends, a small delta with a hundred levels would cost a hundred
    /// passes over the body.
    private static func ends(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> [Int: Int] {
        var (ends, open, at): ([Int: Int], [Int], Int) = ([:], [], start)
        repeat {
            switch text[at] {
            case UInt8(ascii: "\""): at = text.endOfJSONString(at)
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                open.append(at)
                at += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                at += 1
                if let begin = open.popLast(), at - begin > large { ends[begin] = at }
            default: at += 1
            }
        } while at < text.count && !open.isEmpty
        return ends
    }

    /// Appends the new form of a value; returns false if it is deleted.
    private mutating func apply(_ delta: JSONValue, to old: Range<Int>?) throws(JSONDelta.Failure) -> Bool {
        switch delta {
        case .array(let items): return try apply(items, to: old)
        case .object(let object):
            guard let old else { throw .corrupt("it changes the inside of something that is neither an object nor an array") }
            if object.isEmpty {
                copy(old)
            } else if text[old.lowerBound] == UInt8(ascii: "{") {
                try apply(object, toObjectAt: old.lowerBound)
            } else if text[old.lowerBound] == UInt8(ascii: "[") {
                try apply(object, toArrayAt: old.lowerBound)
            } else {
                throw .corrupt("it changes the inside of something that is neither an object nor an array")
            }
        default: delta.serialize(into: &new)
        }
        return true
    }

    private mutating func apply(_ items: [JSONValue], to old: Range<Int>?) throws(JSONDelta.Failure) -> Bool {
        switch items.count {
        case 0:
            guard old != nil else { throw .corrupt("it deletes something that is not there") }
            return false
        case 1: items[0].serialize(into: &new)
        case 2:
            guard old != nil else { throw .corrupt("it replaces something that is not there") }
            items[1].serialize(into: &new)
        case 3:
            guard let old else { throw .corrupt("it changes something that is not there") }
            switch items[2].asInt64 {
            case 0: return false
            case 2:
                guard let text = string(old), let patch = items[0].asString else { throw .corrupt("it patches something that is not text") }
                JSONValue.writeString(try TextPatch.apply(patch, to: text), into: &new)
            default: throw .corrupt("it has an unknown operation")
            }
        default: throw .corrupt("an operation has at most three items, not \(items.count)")
        }
        return true
    }

    private mutating func apply(_ delta: JSONObject, toObjectAt start: Int) throws(JSONDelta.Failure) {
        let changes = Changes(delta)
        // Of equal keys, which old bodies may contain, the last one counts.
        var places = [Int](repeating: -1, count: delta.count)
        var at = start + 1
        while let member = nextMember(&at) {
            if let index = changes.index(of: self[member.key]) { places[index] = member.key.lowerBound }
            // Lets the second pass skip it.
            if member.value.count > Self.large { ends[member.value.lowerBound] = member.value.upperBound }
        }
        new.append(UInt8(ascii: "{"))
        var isFirst = true
        at = start + 1
        while let member = nextMember(&at) {
            guard let index = changes.index(of: self[member.key]) else {
                separate(&isFirst)
                copy(member.key)
                new.append(UInt8(ascii: ":"))
                copy(member.value)
                continue
            }
            guard places[index] == member.key.lowerBound else { continue }
            try append(delta.members[index], old: member.value, &isFirst)
        }
        for (index, change) in delta.members.enumerated() where places[index] < 0 { try append(change, old: nil, &isFirst) }
        new.append(UInt8(ascii: "}"))
    }

    private mutating func append(_ change: JSONObject.Member, old: Range<Int>?, _ isFirst: inout Bool) throws(JSONDelta.Failure) {
        let (end, wasFirst) = (new.count, isFirst)
        separate(&isFirst)
        JSONValue.writeString(change.key, into: &new)
        new.append(UInt8(ascii: ":"))
        if try apply(change.value, to: old) { return }
        new.removeLast(new.count - end)
        isFirst = wasFirst
    }

    private mutating func apply(_ delta: JSONObject, toArrayAt start: Int) throws(JSONDelta.Failure) {
        var (at, count) = (start + 1, 0)
        while nextItem(&at) != nil { count += 1 }
        var changes: [Int: Int] = [:]
        var remainder: (from: Int, items: [JSONValue])?
        for (place, change) in delta.members.enumerated() {
            let isRemainder = change.key.utf8.last == UInt8(ascii: "-")
            let digits = isRemainder ? change.key.dropLast() : Substring(change.key)
            // Only the usual spelling of numbers: two names for one index would mean two changes of the same item.
            guard let index = Int(digits), digits.utf8.elementsEqual(String(index).utf8), index >= 0, index < count || isRemainder && index == count
            else { throw .corrupt("an array of \(Plural.count(count, "item")) has no place \(quoted(change.key.utf8.prefix(40)))") }
            if isRemainder {
                guard let items = change.value.asArray, remainder == nil else { throw .corrupt("the remainder of an array is one array") }
                remainder = (index, items)
            } else {
                changes[index] = place
            }
        }
        new.append(UInt8(ascii: "["))
        var (index, isFirst, end) = (0, true, Int?.none)
        at = start + 1
        while let item = nextItem(&at) {
            if index == remainder?.from { end = new.count }
            separate(&isFirst)
            if let place = changes[index] {
                guard try apply(delta.members[place].value, to: item) else { throw .corrupt("it deletes an item in the middle of an array") }
            } else {
                copy(item)
            }
            index += 1
        }
        if let remainder {
            if let end { new.removeLast(new.count - end) }
            isFirst = remainder.from == 0
            for item in remainder.items {
                separate(&isFirst)
                item.serialize(into: &new)
            }
        }
        new.append(UInt8(ascii: "]"))
    }

    // MARK: - Text

    private subscript(range: Range<Int>) -> UnsafeBufferPointer<UInt8> { UnsafeBufferPointer(rebasing: text[range]) }

    private mutating func copy(_ range: Range<Int>) { new.append(contentsOf: self[range]) }

    private mutating func separate(_ isFirst: inout Bool) {
        if !isFirst { new.append(UInt8(ascii: ",")) }
        isFirst = false
    }

    /// Nil for a value of another type.
    private func string(_ range: Range<Int>) -> String? {
        text[range.lowerBound] == UInt8(ascii: "\"") ? JSONReader.read(UnsafeRawBufferPointer(self[range])).asString : nil
    }

    /// The next member at or after a position within an object; the key includes its quotes.
    private func nextMember(_ at: inout Int) -> (key: Range<Int>, value: Range<Int>)? {
        skipComma(&at)
        guard at < text.count, text[at] == UInt8(ascii: "\"") else { return nil }
        let key = at..<text.endOfJSONString(at)
        let colon = text.skippingJSONSpace(key.upperBound)
        let value = text.skippingJSONSpace(colon + 1)
        at = end(ofValueAt: value)
        return (key, value..<at)
    }

    private func nextItem(_ at: inout Int) -> Range<Int>? {
        skipComma(&at)
        guard at < text.count, text[at] != UInt8(ascii: "]") else { return nil }
        let start = at
        at = end(ofValueAt: start)
        return start..<at
    }

    private func end(ofValueAt start: Int) -> Int { ends[start] ?? text.endOfJSONValue(start) }

    private func skipComma(_ at: inout Int) {
        at = text.skippingJSONSpace(at)
        if at < text.count, text[at] == UInt8(ascii: ",") { at = text.skippingJSONSpace(at + 1) }
    }
}

/// The keys that a delta changes.
private struct Changes {
    private let members: [JSONObject.Member]
    private var places: [[UInt8]: Int] = [:]

    /// Above this number, they are looked up in a table.
    private static let few = 8

    init(_ delta: JSONObject) {
        members = delta.members
        guard members.count > Self.few else { return }
        places.reserveCapacity(members.count)
        for (index, member) in members.enumerated() { places[Array(member.key.utf8)] = index }
    }

    /// - Parameter written: a key of the old body, including its quotes.
    func index(of written: UnsafeBufferPointer<UInt8>) -> Int? {
        let inside = UnsafeBufferPointer(rebasing: written.dropFirst().dropLast())
        if inside.contains(UInt8(ascii: "\\")) {
            let key = ObjectKey.plain(inside)
            return members.count > Self.few ? places[key] : members.firstIndex { $0.key.utf8.elementsEqual(key) }
        }
        return members.count > Self.few ? places[Array(inside)] : members.firstIndex { $0.key.utf8.elementsEqual(inside) }
    }
}
