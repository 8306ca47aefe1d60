/// How values appear in messages.
enum Quoting {
    /// The text in quotes, shortened and without control characters.
    static func quoted(_ text: String) -> String {
        let shown = text.unicodeScalars.prefix(Limits.quotedCharacters)
        let cut = shown.endIndex != text.unicodeScalars.endIndex
        return JSONText.string(String(shown) + (cut ? "…" : ""))
    }

    /// What stands at a node, for "found …". Expanded text is never shown: it may be a secret.
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

    /// The same without any of the value.
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

/// Writing JSON.
enum JSONText {
    static func string(_ text: String) -> String {
        var json = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case "\n": json += "\\n"
            case "\r": json += "\\r"
            case "\t": json += "\\t"
            case _ where scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value):
                let hex = String(scalar.value, radix: 16)
                json += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: json.unicodeScalars.append(scalar)
            }
        }
        return json + "\""
    }
}
