import Encodings

/// A part of the YAML whose meaning is not known here, such as a plugin's params. Every node keeps its
/// position.
/// Equality ignores positions, quoting and the order of keys.
package struct ConfigurationNode: Sendable {
    package enum Content: Sendable {
        case scalar(Scalar)
        case sequence([ConfigurationNode])
        /// In the order of the file; keys are unique.
        case mapping([Entry])
    }

    package struct Entry: Sendable {
        package var key: String
        package var keyPosition: SourcePosition
        package var value: ConfigurationNode
    }

    package enum Style: Sendable { case plain, singleQuoted, doubleQuoted, literal, folded }

    /// A single value, as it was written.
    package struct Scalar: Sendable {
        /// The text after expanding `${…}`.
        package internal(set) var text: String
        package internal(set) var style: Style
        /// The text in the file, if expansion changed it. Only this one may be shown, because the other may be
        /// a secret.
        package internal(set) var source: String?
        /// Expansion failed, and the problem has already been reported.
        var isUnresolved = false

        /// The text comes at least partly from `${…}`.
        package var isExpanded: Bool { source != nil }

        /// In JSON notation.
        var json: String {
            switch value {
            case .null: "null"
            case .bool(let value): "\(value)"
            case .integer(let value): "\(value)"
            case .number(let value): "\(value)"
            case .string(let value): JSONString.quoted(value)
            }
        }
    }

    package var content: Content
    package var position: SourcePosition

    init(_ content: Content, at position: SourcePosition) {
        self.content = content
        self.position = position
    }

    /// The entries, if this is a mapping.
    package var entries: [Entry]? {
        if case .mapping(let entries) = content { entries } else { nil }
    }

    /// The elements, if this is a list.
    package var elements: [ConfigurationNode]? {
        if case .sequence(let elements) = content { elements } else { nil }
    }

    /// The scalar, if this is one.
    package var scalar: Scalar? {
        if case .scalar(let scalar) = content { scalar } else { nil }
    }

    /// The value under a key, if this is a mapping that has it.
    package subscript(key: String) -> ConfigurationNode? {
        entries?.first { $0.key.utf8.elementsEqual(key.utf8) }?.value
    }
}

extension ConfigurationNode: Equatable {
    package static func == (left: Self, right: Self) -> Bool {
        switch (left.content, right.content) {
        case (.scalar(let one), .scalar(let other)):
            return one.value == other.value
        case (.sequence(let one), .sequence(let other)):
            return one == other
        case (.mapping(let one), .mapping(let other)):
            guard one.count == other.count else { return false }
            var values: [[UInt8]: ConfigurationNode] = [:]
            for entry in other { values[Array(entry.key.utf8)] = entry.value }
            return one.allSatisfy { values[Array($0.key.utf8)] == $0.value }
        default:
            return false
        }
    }
}

extension ConfigurationNode.Scalar: CustomStringConvertible, CustomReflectable {
    /// The text in the file: what `${…}` expands to may be a secret.
    package var description: String { source ?? text }
    package var customMirror: Mirror { Mirror(self, children: ["text": description]) }
}

extension ConfigurationNode: CustomStringConvertible {
    /// The node in YAML's flow style, with `${…}` left as written.
    package var description: String {
        switch content {
        case .scalar(let scalar):
            return scalar.style == .plain ? scalar.description : JSONString.quoted(scalar.description)
        case .sequence(let elements):
            return "[" + elements.map(\.description).joined(separator: ", ") + "]"
        case .mapping(let entries):
            return "{" + entries.map { "\($0.key): \($0.value)" }.joined(separator: ", ") + "}"
        }
    }
}
