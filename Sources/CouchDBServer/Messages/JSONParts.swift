import Documents
import HTTPServer

/// Finds the members of an object and the elements of an array by their position in the text, so that a request with thousands of documents is never
/// held in parsed form. The text must have been checked to be JSON.
struct JSONParts {
    let bytes: [UInt8]
    /// Whether some object in it may be a blob.
    let mayHoldBlobs: Bool

    /// - Throws: ``JSONError`` for text that is not JSON.
    init(checking bytes: [UInt8]) throws(JSONError) {
        let result: Result<Bool, JSONError> = bytes.withUnsafeBytes { raw in Result { () throws(JSONError) in try JSONScanner.checkValue(raw) } }
        mayHoldBlobs = try result.get()
        self.bytes = bytes
    }

    /// Text from the store, or checked as part of other text.
    init(checked bytes: [UInt8]) { (self.bytes, mayHoldBlobs) = (bytes, true) }

    /// Without surrounding white space.
    var root: Range<Int> {
        let start = skipSpace(bytes.startIndex)
        var end = bytes.endIndex
        while end > start, bytes[end - 1] <= 0x20 { end -= 1 }
        return start..<end
    }

    func isObject(_ range: Range<Int>) -> Bool { first(range) == UInt8(ascii: "{") }
    func isArray(_ range: Range<Int>) -> Bool { first(range) == UInt8(ascii: "[") }

    /// The positions of an object's members, one after the other: an array of them could be many times as large as the text.
    struct Places: Sequence, IteratorProtocol {
        fileprivate let parts: JSONParts
        fileprivate var at: Int
        fileprivate let end: Int

        /// The key includes its quotes.
        mutating func next() -> (key: Range<Int>, value: Range<Int>)? {
            guard at < end, parts.bytes[at] != UInt8(ascii: "}") else { return nil }
            let first = at
            let keyEnd = parts.end(of: at)
            // Text that was damaged on disk may end anywhere.
            let start = Swift.min(parts.skipSpace(parts.skipSpace(keyEnd) + 1), parts.bytes.count)
            let stop = parts.end(of: start)
            at = parts.next(stop)
            return (first..<keyEnd, start..<stop)
        }
    }

    /// Of an object.
    func places(of range: Range<Int>) -> Places {
        Places(parts: self, at: isObject(range) ? skipSpace(range.lowerBound + 1) : range.upperBound, end: range.upperBound)
    }

    /// Of an object; keys unescaped.
    func members(of range: Range<Int>) -> some Sequence<(key: String, value: Range<Int>)> {
        places(of: range).lazy.map { (key: string($0.key) ?? "", value: $0.value) }
    }

    /// Members whose keys begin with `_`; the other keys, of which there are many, are not converted to strings.
    func reservedMembers(of range: Range<Int>) -> some Sequence<(key: String, value: Range<Int>)> {
        places(of: range).lazy.compactMap { place in reservedKey(place.key).map { (key: $0, value: place.value) } }
    }

    /// A member's key, if it begins with `_`.
    func reservedKey(_ key: Range<Int>) -> String? {
        switch key.count > 2 ? bytes[key.lowerBound + 1] : 0 {
        case UInt8(ascii: "_"): string(key)
        case UInt8(ascii: "\\"): string(key).flatMap { $0.utf8.first == UInt8(ascii: "_") ? $0 : nil }
        default: nil
        }
    }

    /// An object's member by its key; if keys repeat, the last one.
    func member(_ key: String, of range: Range<Int>) -> Range<Int>? {
        var found: Range<Int>?
        for member in members(of: range) where member.key.utf8.elementsEqual(key.utf8) { found = member.value }
        return found
    }

    /// An array's elements; nil if there are more than the limit.
    func elements(of range: Range<Int>, atMost limit: Int = .max) -> [Range<Int>]? {
        let found = firstElements(of: range, limit == .max ? limit : limit + 1)
        return found.count > limit ? nil : found
    }

    /// No more of an array's elements than the limit.
    func firstElements(of range: Range<Int>, _ limit: Int) -> [Range<Int>] {
        guard isArray(range) else { return [] }
        var found: [Range<Int>] = []
        var at = skipSpace(range.lowerBound + 1)
        while at < range.upperBound, found.count < limit, bytes[at] != UInt8(ascii: "]") {
            let stop = end(of: at)
            guard stop > at else { break }
            found.append(at..<stop)
            at = next(stop)
        }
        return found
    }

    /// `true` or `false`; nil for anything else.
    func flag(_ range: Range<Int>) -> Bool? {
        bytes[range].elementsEqual("true".utf8) ? true : bytes[range].elementsEqual("false".utf8) ? false : nil
    }

    func isNull(_ range: Range<Int>) -> Bool { bytes[range].elementsEqual("null".utf8) }

    /// Parses a part of a request completely, which takes many times the memory of its text.
    ///
    /// - Throws: ``HTTPError`` 413 if it contains more values than `couchdb_member_values`.
    func value(_ range: Range<Int>, of member: String) throws(HTTPError) -> JSONValue? {
        guard JSONTreeSize.values(in: bytes[range]) <= CouchLimits.memberValues else {
            throw HTTPError(413, "\(member) has more values than couchdb_member_values (\(CouchLimits.memberValues)) allows", error: "document_too_large")
        }
        return value(range)
    }

    func value(_ range: Range<Int>) -> JSONValue? { try? JSONValue(stored: Array(bytes[range])) }

    /// Nil for anything but a string.
    func string(_ range: Range<Int>) -> String? {
        guard first(range) == UInt8(ascii: "\""), range.count >= 2 else { return nil }
        let inner = bytes[(range.lowerBound + 1)..<(range.upperBound - 1)]
        if !inner.contains(UInt8(ascii: "\\")) { return String(decoding: inner, as: UTF8.self) }
        return value(range)?.asString
    }

    func append(_ range: Range<Int>, to text: inout [UInt8]) {
        bytes.withUnsafeBufferPointer { text.append(contentsOf: UnsafeBufferPointer(rebasing: $0[range])) }
    }

    private func first(_ range: Range<Int>) -> UInt8? { range.isEmpty ? nil : bytes[range.lowerBound] }

    private func skipSpace(_ from: Int) -> Int { bytes.withUnsafeBufferPointer { $0.skippingJSONSpace(from) } }

    /// The position after the comma, if there is one.
    private func next(_ stop: Int) -> Int {
        let at = skipSpace(stop)
        return at < bytes.count && bytes[at] == UInt8(ascii: ",") ? skipSpace(at + 1) : at
    }

    /// The position after the value that begins here.
    private func end(of start: Int) -> Int { bytes.withUnsafeBufferPointer { $0.endOfJSONValue(start) } }
}
