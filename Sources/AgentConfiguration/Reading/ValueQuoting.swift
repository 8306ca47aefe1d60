import Encodings

/// How values are shown in messages.
enum ValueQuoting {
    /// The text in quotes, shortened and without control characters.
    static func quoted(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(Limits.quotedCharacters)
        let cut = shown.endIndex != text.unicodeScalars.endIndex
        return JSONString.quoted(String(shown) + (cut ? "…" : ""), forTerminals: true)
    }

    /// Describes a node, for "found …". Expanded text is never shown, because it may be a secret.
    static func found(_ node: ConfigurationNode) -> String {
        switch node.content {
        case .sequence: return "a list"
        case .mapping: return "a mapping"
        case .scalar(let scalar):
            if let source = scalar.source { return "what \(quoted(source)) expands to" }
            switch scalar.value {
            case .null: return "nothing"
            case .string: return quoted(scalar.text)
            default: return String(scalar.text.unicodeScalars.prefix(Limits.quotedCharacters))
            }
        }
    }

    /// Whether the value is quoted, and would be a number, true or false without its quotes.
    static func withoutQuotes(_ node: ConfigurationNode) -> Bool {
        guard let scalar = node.scalar, scalar.source == nil, case .string = scalar.value else { return false }
        return scalar.text == "true" || scalar.text == "false" || !scalar.text.isEmpty && scalar.text.utf8.allSatisfy { (0x30...0x39).contains($0) }
    }

    /// What was found, without any part of the value.
    static func kind(_ node: ConfigurationNode) -> String {
        switch node.content {
        case .sequence: return "a list"
        case .mapping: return "a mapping"
        case .scalar(let scalar):
            switch scalar.value {
            case .null: return "nothing"
            case .bool: return "true or false without quotes"
            case .integer, .number: return "a number without quotes"
            case .string: return "a text"
            }
        }
    }
}
