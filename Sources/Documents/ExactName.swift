/// The name of a user, role or channel. Compared and hashed as bytes, as SQLite and Lua do: strings that differ only in how their characters are
/// composed are equal to Swift, and as keys of a set would give one user what another one was granted.
public struct ExactName: Hashable, Sendable, ExpressibleByStringLiteral {
    public let text: String

    public init(_ text: String) { self.text = text }
    public init(stringLiteral text: String) { self.text = text }

    public static func == (left: Self, right: Self) -> Bool { left.text.sameBytes(as: right.text) }

    public func hash(into hasher: inout Hasher) {
        text.withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        hasher.combine(UInt8(0xFF))
    }
}
