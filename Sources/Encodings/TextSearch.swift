/// Substring search by bytes: unlike in a search by characters, a following combining accent cannot hide a secret. The standard library's own search
/// is part of its regular expressions, which add one and a half megabytes to a program.
extension StringProtocol {
    /// Whether the text contains these bytes. Every text contains the empty one.
    public func holds(_ text: some StringProtocol) -> Bool { text.isEmpty || place(of: text) != nil }

    /// The first range of these bytes; nil if they do not occur, or are empty.
    public func place(of text: some StringProtocol) -> Range<Index>? {
        let wanted = Array(text.utf8)
        guard let first = wanted.first else { return nil }
        var rest = utf8[...]
        while let start = rest.firstIndex(of: first) {
            rest = rest[start...]
            guard rest.count >= wanted.count else { return nil }
            if rest.starts(with: wanted) { return start..<utf8.index(start, offsetBy: wanted.count) }
            rest = rest.dropFirst()
        }
        return nil
    }

    /// Replaces all occurrences of these bytes, from the left. Does nothing if they are empty.
    public func with(_ text: some StringProtocol, replacedBy other: some StringProtocol) -> String {
        var result = ""
        var rest = self[startIndex...]
        while let place = rest.place(of: text) {
            result += rest[..<place.lowerBound]
            result += other
            rest = rest[place.upperBound...]
        }
        return result + String(rest)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether the text contains these bytes.
    public func holds(_ text: StaticString) -> Bool {
        text.withUTF8Buffer { wanted in
            guard let first = wanted.first else { return true }
            var at = startIndex
            while let found = self[at...].firstIndex(of: first) {
                if self[found...].starts(with: wanted) { return true }
                at = found + 1
            }
            return false
        }
    }
}
