import Documents
import Encodings

/// Text known to be valid JSON, or the beginning of such text, whose last value then ends where the text does; values are identified by their start.
struct JSONBytes {
    let text: UnsafeBufferPointer<UInt8>

    func isObject(_ at: Int) -> Bool { at < text.count && text[at] == UInt8(ascii: "{") }

    func start(_ from: Int) -> Int { text.skippingJSONSpace(from) }

    /// The position after the value that starts here.
    func end(of start: Int) -> Int { text.endOfJSONValue(start) }

    func forEachMember(at object: Int, _ body: (_ key: Range<Int>, _ value: Range<Int>) -> Void) {
        guard isObject(object) else { return }
        var at = start(object + 1)
        while at < text.count, text[at] == UInt8(ascii: "\"") {
            let key = at..<end(of: at)
            let value = start(start(key.upperBound) + 1)
            let stop = end(of: value)
            guard value < stop else { return }
            body(key, value..<stop)
            at = start(stop)
            if at < text.count, text[at] == UInt8(ascii: ",") { at = start(at + 1) }
        }
    }

    func member(_ name: String, at object: Int) -> Int? {
        var found: Int?
        forEachMember(at: object) { key, value in
            if key.count == name.utf8.count + 2, text[key].dropFirst().dropLast().elementsEqual(name.utf8) { found = value.lowerBound }
        }
        return found
    }

    func onlyElement(at array: Int) -> Int? {
        guard array < text.count, text[array] == UInt8(ascii: "[") else { return nil }
        let first = start(array + 1)
        let next = start(end(of: first))
        return first < next && next < text.count && text[next] == UInt8(ascii: "]") ? first : nil
    }

    /// A key that starts with `_`, however it is escaped.
    func reservedKey(_ key: Range<Int>) -> String? {
        guard key.count > 2, [UInt8(ascii: "_"), UInt8(ascii: "\\")].contains(text[key.lowerBound + 1]) else { return nil }
        return (try? JSONValue(parsing: Array(text[key])))?.asString
    }
}
