/// The name of an identity in the key store: a letter or digit, then letters, digits, `.`, `_` and `-`, at most 128. It is
/// used as a file name, so capitals are allowed but path separators are not.
package struct IdentityLabel: Sendable, Hashable, CustomStringConvertible {
    package let text: String

    /// The self-signed identity that the agent makes for itself.
    package static let anonymous = IdentityLabel(unchecked: "anonymous")

    package init(_ text: String) throws(TLSFileError) {
        let bytes = text.utf8
        func isAlphanumeric(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) }
        guard let first = bytes.first, bytes.count <= 128, isAlphanumeric(first),
            bytes.allSatisfy({ isAlphanumeric($0) || "._-".utf8.contains($0) })
        else {
            throw TLSFileError(
                .invalid, path: String(text.prefix(TLSLimits.quotedCharacters)), reason: "is not a valid identity label",
                advice: "a label is a letter or digit, then up to 127 letters, digits, \".\", \"_\" or \"-\"")
        }
        self.text = text
    }

    private init(unchecked text: String) { self.text = text }

    package var description: String { text }
}
