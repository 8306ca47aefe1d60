import Encodings

/// The difference between two bodies in the form of Couchbase's delta sync (replication.md section 11): per key of an object and per index of an
/// array, a deletion `[]`, a value, or a nested delta. Of a long text only the changed part is sent; a peer's text patches may have any number of
/// parts.
///
/// The result of applying a delta is never larger than the old body and the delta together: no part of the old body is used twice.
public enum JSONDelta {
    /// Why a delta cannot be applied. The peer that sent it then sends the whole body.
    public enum Failure: Error, Equatable, Sendable, CustomStringConvertible {
        case notJSON(String)
        case corrupt(String)
        case tooLarge(bytes: Int, limit: Int)

        public var description: String {
            switch self {
            case .notJSON(let why): why
            case .corrupt(let why): "the delta is corrupt: \(why)"
            case .tooLarge(let bytes, let limit): "the delta makes a body of \(bytes) bytes, and \(limit) are allowed"
            }
        }
    }

    // MARK: - Bytes

    /// Applies a delta to an older body. Parts that the delta does not touch are copied as text: nothing of the old body is parsed into values except
    /// a text that is patched.
    ///
    /// - Parameter limit: maximum size of the new body, in bytes.
    public static func apply(_ delta: [UInt8], to old: [UInt8], limit: Int) throws(Failure) -> [UInt8] {
        let deltaValue: JSONValue
        do {
            _ = try old.withRawBytes { (raw) throws(JSONError) in try JSONScanner.checkValue(raw, keysMayRepeat: true) }
            deltaValue = try JSONValue(parsing: delta)
        } catch { throw .notJSON("\(error)") }
        guard case .object(let change) = deltaValue else { throw .corrupt("a body and its delta are JSON objects") }
        let bytes = try old.withRawBytes { (raw) throws(Failure) in
            try DeltaText.apply(change, to: raw.bindMemory(to: UInt8.self), adding: delta.count)
        }
        guard bytes.count <= limit else { throw .tooLarge(bytes: bytes.count, limit: limit) }
        return bytes
    }

    /// The delta that leads from one body to another; nil if one of them is not a JSON object.
    public static func make(from old: [UInt8], to new: [UInt8]) -> [UInt8]? {
        guard case .object(let old)? = try? JSONValue(stored: old), case .object(let new)? = try? JSONValue(stored: new) else { return nil }
        return JSONValue.object(difference(old, new)).serialize()
    }

    // MARK: - Making

    /// Returns `.none` if they are equal. Spelled out, because a bare nil beside a JSONValue means JSON's null.
    private static func difference(_ old: JSONValue, _ new: JSONValue) -> JSONValue? {
        switch (old, new) {
        case (.object(let old), .object(let new)):
            let delta = difference(old, new)
            return delta.isEmpty ? JSONValue?.none : .object(delta)
        case (.array(let old), .array(let new)):
            let delta = difference(old, new)
            return delta.isEmpty ? JSONValue?.none : .object(delta)
        case (.string(let old), .string(let new)):
            guard !old.sameBytes(as: new) else { return JSONValue?.none }
            guard let patch = TextPatch.make(from: old, to: new) else { return .string(new) }
            return .array([.string(patch), .int(0), .int(2)])
        default: return old == new ? JSONValue?.none : literal(new)
        }
    }

    private static func difference(_ old: JSONObject, _ new: JSONObject) -> JSONObject {
        var delta = JSONObject()
        let (oldPlaces, newPlaces) = (MemberPlaces(old), MemberPlaces(new))
        for (index, member) in new.members.enumerated() where newPlaces.place(of: member.key) == index {
            if let place = oldPlaces.place(of: member.key) {
                guard let change = difference(old.members[place].value, member.value) else { continue }
                delta.members.append(.init(key: member.key, value: change))
            } else {
                delta.members.append(.init(key: member.key, value: literal(member.value)))
            }
        }
        for (index, member) in old.members.enumerated() where oldPlaces.place(of: member.key) == index {
            if newPlaces.place(of: member.key) == nil { delta.members.append(.init(key: member.key, value: .array([]))) }
        }
        return delta
    }

    /// Compares item by item; items beyond the end of the shorter array are the remainder.
    private static func difference(_ old: [JSONValue], _ new: [JSONValue]) -> JSONObject {
        var delta = JSONObject()
        let common = min(old.count, new.count)
        for index in 0..<common {
            guard let change = difference(old[index], new[index]) else { continue }
            delta.members.append(.init(key: String(index), value: change))
        }
        if old.count != new.count { delta.members.append(.init(key: "\(common)-", value: .array(Array(new[common...])))) }
        return delta
    }

    /// A value as written in a delta: objects and arrays stand for themselves only inside an array.
    private static func literal(_ value: JSONValue) -> JSONValue {
        switch value {
        case .object, .array: .array([value])
        default: value
        }
    }
}

/// The positions of an object's keys; of equal keys, the last.
private struct MemberPlaces {
    private let members: [JSONObject.Member]
    private var places: [[UInt8]: Int] = [:]

    init(_ object: JSONObject) {
        members = object.members
        guard members.count > 8 else { return }
        places.reserveCapacity(members.count)
        for (index, member) in members.enumerated() { places[Array(member.key.utf8)] = index }
    }

    func place(of key: String) -> Int? {
        members.count > 8 ? places[Array(key.utf8)] : members.lastIndex { $0.key.sameBytes(as: key) }
    }
}

/// A change inside a text: `n=` copies n bytes of the old text, `n-` skips them, `n+bytes|` inserts n bytes; the old text is covered completely, in
/// order.
enum TextPatch {
    /// Shorter texts are sent whole, as in Couchbase's own library.
    private static let shortestText = 60
    /// Length of `[` and `,0,2]`, which enclose a patch.
    private static let wrapping = 6

    /// Copies the common prefix and suffix of both texts, and replaces the rest. Nil if the new text itself is no longer than that.
    static func make(from old: String, to new: String) -> String? {
        guard new.utf8.count >= shortestText else { return nil }
        let (old, bytes) = (Array(old.utf8), Array(new.utf8))
        let shorter = min(old.count, bytes.count)
        var start = 0
        while start < shorter, old[start] == bytes[start] { start += 1 }
        while isInsideCharacter(start, old) || isInsideCharacter(start, bytes) { start -= 1 }
        var tail = 0
        while tail < shorter - start, old[old.count - tail - 1] == bytes[bytes.count - tail - 1] { tail += 1 }
        while isInsideCharacter(bytes.count - tail, bytes) { tail -= 1 }
        let inserted = bytes[start..<bytes.count - tail]
        let removed = old.count - start - tail
        var patch: [UInt8] = []
        func add(_ count: Int, _ operation: Unicode.Scalar) { if count > 0 { patch += Array("\(count)\(operation)".utf8) } }
        add(start, "=")
        add(removed, "-")
        add(inserted.count, "+")
        if !inserted.isEmpty { patch += inserted + [UInt8(ascii: "|")] }
        add(tail, "=")
        guard patch.count + wrapping < bytes.count else { return nil }
        return String(validating: patch, as: UTF8.self)
    }

    private static func isInsideCharacter(_ place: Int, _ text: [UInt8]) -> Bool { place < text.count && text[place] & 0xC0 == 0x80 }

    static func apply(_ patch: String, to old: String) throws(JSONDelta.Failure) -> String {
        let (patch, old) = (Array(patch.utf8), Array(old.utf8))
        var new: [UInt8] = []
        var (at, from) = (0, 0)
        while at < patch.count {
            var count = 0
            let first = at
            while at < patch.count, let digit = digit(patch[at]) {
                guard count <= old.count + patch.count else { throw .corrupt("a text patch has a count that is too large") }
                count = count * 10 + digit
                at += 1
            }
            guard at > first, at < patch.count else { throw .corrupt("a text patch has no operation at byte \(first)") }
            let operation = patch[at]
            at += 1
            switch operation {
            case UInt8(ascii: "="), UInt8(ascii: "-"):
                guard count <= old.count - from else { throw .corrupt("a text patch goes beyond the end of the text") }
                if operation == UInt8(ascii: "=") { new += old[from..<from + count] }
                from += count
            case UInt8(ascii: "+"):
                guard count < patch.count - at, patch[at + count] == UInt8(ascii: "|") else {
                    throw .corrupt("an insertion of a text patch does not end where it should")
                }
                new += patch[at..<at + count]
                at += count + 1
            default: throw .corrupt("a text patch has an unknown operation at byte \(at - 1)")
            }
        }
        guard from == old.count else { throw .corrupt("a text patch leaves a part of the text out") }
        guard let text = String(validating: new, as: UTF8.self) else { throw .corrupt("a text patch cuts a character in two") }
        return text
    }

    private static func digit(_ byte: UInt8) -> Int? { (0x30...0x39).contains(byte) ? Int(byte) - 0x30 : nil }
}
