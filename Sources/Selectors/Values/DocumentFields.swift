import Documents
import Glibc

/// A document as seen by selectors and indexes: its body with `_id` and `_rev`, and `_deleted` if it is a tombstone.
package struct DocumentFields {
    private let id: DocumentID
    private let revision: RevisionID
    private let isDeleted: Bool
    private let body: [UInt8]

    package init(_ id: DocumentID, _ revision: RevisionID, isDeleted: Bool, body: [UInt8]) {
        (self.id, self.revision, self.isDeleted, self.body) = (id, revision, isDeleted, body)
    }

    /// The document with only these of its members: others are skipped without being parsed, so that a document of megabytes costs little.
    ///
    /// - Returns: nil if the body is damaged.
    /// - Throws: ``SelectorError`` if the members take more than ``SelectorLimits/fieldBytes`` in memory.
    package func document(with roots: [String]) throws(SelectorError) -> JSONValue? {
        var members: [JSONObject.Member] = []
        var wanted: [[UInt8]] = []
        for root in roots {
            switch root {
            case "_id": members.append(JSONObject.Member(key: root, value: .string(id.text)))
            case "_rev": members.append(JSONObject.Member(key: root, value: .string(revision.text)))
            case "_deleted": if isDeleted { members.append(JSONObject.Member(key: root, value: true)) }
            default: wanted.append(Array(root.utf8))
            }
        }
        if wanted.isEmpty { return .object(JSONObject(members)) }
        guard let read = try Self.members(of: body, wanted) else { return nil }
        return .object(JSONObject(members + read))
    }

    /// The same for a text that already contains all members.
    package static func document(in text: [UInt8], with roots: [String]) throws(SelectorError) -> JSONValue? {
        try members(of: text, roots.map { Array($0.utf8) }).map { .object(JSONObject($0)) }
    }

    private static func members(of text: [UInt8], _ wanted: [[UInt8]]) throws(SelectorError) -> [JSONObject.Member]? {
        try text.withUnsafeBufferPointer { (buffer) throws(SelectorError) -> [JSONObject.Member]? in
            let bytes = UnsafeRawBufferPointer(buffer)
            var members: [JSONObject.Member] = []
            var walk = MemberWalk(bytes)
            var size = 0
            guard walk.begin() else { return nil }
            while let member = walk.next() {
                guard let name = wanted.first(where: { member.isNamed($0) }) else { continue }
                let value = UnsafeBufferPointer(rebasing: buffer[member.value])
                size += JSONTreeSize.bytes(of: value)
                guard size <= SelectorLimits.fieldBytes else {
                    throw SelectorError(
                        "document_too_large",
                        "the fields of a document come to more than selector_field_bytes (\(SelectorLimits.fieldBytes)) in memory: \(String(decoding: name, as: UTF8.self))",
                        isOfDocument: true)
                }
                guard let read = try? JSONValue(stored: Array(value)) else { return nil }
                members.append(JSONObject.Member(key: String(decoding: name, as: UTF8.self), value: read))
            }
            return walk.isWhole ? members : nil
        }
    }
}

/// Iterates over the members of a stored object by its brackets and quotes.
private struct MemberWalk {
    struct Member {
        /// In its written form, without quotes.
        var key: UnsafeRawBufferPointer.SubSequence
        var value: Range<Int>

        func isNamed(_ name: [UInt8]) -> Bool {
            if !key.contains(UInt8(ascii: "\\")) { return key.elementsEqual(name) }
            let text = [UInt8(ascii: "\"")] + key + [UInt8(ascii: "\"")]
            return (try? JSONValue(stored: text))?.asString.map { $0.utf8.elementsEqual(name) } ?? false
        }
    }

    private let bytes: UnsafeRawBufferPointer
    private var at = 0
    /// The closing bracket was reached.
    private(set) var isWhole = false

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func begin() -> Bool {
        skipSpace()
        return accept("{")
    }

    mutating func next() -> Member? {
        skipSpace()
        if accept("}") {
            isWhole = true
            return nil
        }
        _ = accept(",")
        skipSpace()
        let start = at
        guard skipString() else { return nil }
        let key = bytes[(start + 1)..<(at - 1)]
        skipSpace()
        guard accept(":") else { return nil }
        skipSpace()
        let first = at
        guard skipValue() else { return nil }
        return Member(key: key, value: first..<at)
    }

    private mutating func accept(_ character: Unicode.Scalar) -> Bool {
        guard at < bytes.count, bytes[at] == UInt8(ascii: character) else { return false }
        at += 1
        return true
    }

    private mutating func skipSpace() {
        while at < bytes.count, bytes[at] <= 0x20 { at += 1 }
    }

    private mutating func skipString() -> Bool {
        guard accept("\""), let base = bytes.baseAddress else { return false }
        let start = at
        while let found = memchr(base + at, Int32(UInt8(ascii: "\"")), bytes.count - at) {
            let quote = UnsafeRawPointer(found) - base
            at = quote + 1
            // Preceded by an odd number of backslashes, the quote is part of the string.
            var first = quote
            while first > start, bytes[first - 1] == UInt8(ascii: "\\") { first -= 1 }
            if (quote - first) % 2 == 0 { return true }
        }
        return false
    }

    private mutating func skipValue() -> Bool {
        var depth = 0
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "\""):
                guard skipString() else { return false }
                if depth == 0 { return true }
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                at += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 0 { return true }
                depth -= 1
                at += 1
                if depth == 0 { return true }
            case UInt8(ascii: ","):
                if depth == 0 { return true }
                at += 1
            default: at += 1
            }
        }
        return false
    }
}
