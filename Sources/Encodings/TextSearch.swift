/// Texts in texts, found by their bytes: no accent that follows hides a secret, as it would from a search by characters. The standard
/// library's own search is of its regular expressions, which are a megabyte and a half of every program that asks for it.
extension StringProtocol {
    /// Whether these bytes are in it. Nothing is in everything.
    public func holds(_ text: some StringProtocol) -> Bool { text.isEmpty || place(of: text) != nil }

    /// Where these bytes are first; nil of none, and where they are not.
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

    /// With another text wherever these bytes are, from the left. Nothing is not looked for.
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
    /// Whether these bytes are in it.
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
