/// A text that must not reach a log, a status or an error: passwords, tokens, header values.
/// Printing, interpolating or dumping it shows only that it is there.
public struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself. Named so that every use stands out in a review.
    public let revealed: String

    public init(_ text: String) { revealed = text }

    public var description: String { "(secret)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension Secret: Equatable {
    public static func == (left: Self, right: Self) -> Bool { left.revealed.utf8.elementsEqual(right.revealed.utf8) }
}
