/// Why a selector, a sort or an index cannot be used.
package struct SelectorError: Error, Sendable, Equatable, CustomStringConvertible {
    /// CouchDB's machine-readable code.
    package let word: String
    package let reason: String
    /// It is a single document that takes too much, whoever wrote it: the others can be matched.
    package let isOfDocument: Bool

    package init(_ word: String, _ reason: String, isOfDocument: Bool = false) { (self.word, self.reason, self.isOfDocument) = (word, reason, isOfDocument) }

    package var description: String { reason }

    static func badArgument(_ name: String, _ expected: String, _ found: String) -> SelectorError {
        SelectorError("bad_arg", "Bad argument for operator \(name): expected \(expected), not \(cut(found))")
    }

    /// A shortened value from a client, long enough to recognise it.
    static func cut(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(80)
        return shown.endIndex == text.unicodeScalars.endIndex ? text : String(shown) + "…"
    }
}
