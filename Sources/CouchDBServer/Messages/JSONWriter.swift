import Documents

/// Writes JSON text piece by piece.
struct JSONWriter {
    private(set) var bytes: [UInt8] = []

    mutating func raw(_ text: StaticString) {
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    mutating func text(_ text: String) { bytes.append(contentsOf: text.utf8) }
    mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }
    mutating func string(_ text: String) { JSONValue.string(text).serialize(into: &bytes) }
    mutating func value(_ value: JSONValue) { value.serialize(into: &bytes) }

    /// Writes the elements of a list, separated by commas.
    mutating func list<Element>(_ elements: some Sequence<Element>, _ write: (inout JSONWriter, Element) -> Void) {
        var isFirst = true
        for element in elements {
            if !isFirst { raw(",") }
            isFirst = false
            write(&self, element)
        }
    }

    mutating func strings(_ texts: some Sequence<String>) {
        raw("[")
        list(texts) { $0.string($1) }
        raw("]")
    }
}
