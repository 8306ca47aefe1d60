import Encodings

/// A text that must not appear in a log, a status or an error: passwords, tokens, header values. Printing, interpolating or dumping it
/// shows only that it exists.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The text itself. Named so that every use is conspicuous in a review.
    package let revealed: String

    /// As written, if it refers to a file or a credential, which may change while the agent runs.
    private let reference: Reference?

    private struct Reference: Sendable, Equatable {
        var text: String
        /// The base of relative paths.
        var folder: String
    }

    /// Whether the configuration holds the text itself, and not where it is.
    let isInline: Bool

    package init(_ text: String) { (revealed, reference, isInline) = (text, nil, true) }

    /// - Parameter source: the text before expanding `${…}`.
    init(_ text: String, source: String?, folder: String) {
        revealed = text
        isInline = source?.holds("${") != true
        reference = source.flatMap { $0.holds("${file:") || $0.holds("${credential:") ? Reference(text: $0, folder: folder) : nil }
    }

    /// Whether it comes from a file.
    package var mayChange: Bool { reference != nil }

    /// The files that it comes from, as `${file:PATH}`.
    package var files: [String] { reference.map { Expansion.files(in: $0.text, folder: $0.folder) } ?? [] }

    /// The secret as its files say now; as they said when the configuration was read, where they cannot be read now or say nothing.
    package var current: Secret { read() ?? self }

    /// The secret as its files currently contain it; nil if they cannot be read or are empty.
    package func read() -> Secret? {
        guard let reference else { return self }
        var node = ConfigurationNode(
            .scalar(ConfigurationNode.Scalar(text: reference.text, style: .doubleQuoted)), at: SourcePosition(file: "", line: 0, column: 0))
        var expansion = Expansion(environment: nil, folder: reference.folder)
        var problems = ProblemList(file: "")
        expansion.expand(&node, &problems)
        guard let scalar = node.scalar, !scalar.isUnresolved, !scalar.text.isEmpty else { return nil }
        return Secret(scalar.text, source: reference.text, folder: reference.folder)
    }

    package var description: String { "(secret)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: EmptyCollection<Mirror.Child>()) }
}

extension Secret: Equatable {
    /// The same text from a different source is a different secret, because it changes with that source.
    package static func == (left: Self, right: Self) -> Bool {
        left.revealed.utf8.elementsEqual(right.revealed.utf8) && left.reference == right.reference
    }
}
