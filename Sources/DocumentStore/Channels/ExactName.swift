/// The name of a channel, user or role, compared by its bytes, as SQLite and sync functions do. Strings that differ only in how characters are
/// composed are equal to Swift: as keys they would give one user what another one was granted.
struct ExactName: Hashable, Sendable, ExpressibleByStringLiteral {
    let text: String

    init(_ text: String) { self.text = text }
    init(stringLiteral text: String) { self.text = text }

    static func == (left: Self, right: Self) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
        hasher.combine(UInt8(0xFF))
    }
}
