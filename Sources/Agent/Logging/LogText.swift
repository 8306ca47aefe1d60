import Encodings

/// Makes text from peers and plugins safe for a log line: it stays on one line, remains readable, and cannot be mistaken for fields.
enum LogText {
    /// Unchanged, unless something in it looks like a field; then quoted.
    static func message(_ text: String) -> String { looksLikeFields(text) ? JSONString.quoted(text, forTerminals: true) : escaped(text) }

    /// Quoted if its end would be unclear otherwise.
    static func value(_ text: String) -> String {
        let isPlain = !text.utf8.isEmpty && !text.utf8.contains { $0 == 0x20 || $0 == 0x22 || $0 == 0x3D }
        return isPlain ? escaped(text) : JSONString.quoted(text, forTerminals: true)
    }

    /// Whether the text contains ` word=`, which begins a field, or a quote that would end a quoted text too early.
    private static func looksLikeFields(_ text: String) -> Bool {
        if text.utf8.first == 0x22 { return true }
        guard text.utf8.contains(0x3D) else { return false }
        var isInWord = false
        var length = 0
        for byte in text.utf8 {
            switch byte {
            case 0x20: (isInWord, length) = (true, 0)
            case 0x3D where isInWord && length > 0: return true
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F, 0x2D, 0x2E: length += 1
            default: isInWord = false
            }
        }
        return false
    }

    private static func escaped(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: JSONString.isUnprintable) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            if scalar == "\n" {
                escaped += "\\n"
            } else if JSONString.isUnprintable(scalar) {
                escaped += JSONString.escape(scalar)
            } else {
                escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
