/// Strings as JSON text writes them: in quotes, with the escapes `\" \\ \n \r \t`, and `\u00xx` in lowercase for the other control
/// characters and DEL.
public enum JSONString {
    /// The text in quotes.
    ///
    /// - Parameter forTerminals: escapes U+0080 to U+009F too, which a terminal may take for commands.
    public static func quoted(_ text: String, forTerminals: Bool = false) -> String {
        var bytes: [UInt8] = []
        append(text.utf8, to: &bytes)
        guard forTerminals, text.unicodeScalars.contains(where: isTerminalControl) else { return String(decoding: bytes, as: UTF8.self) }
        var quoted = ""
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            if isTerminalControl(scalar) { quoted += "\\u00\(String(scalar.value, radix: 16))" } else { quoted.unicodeScalars.append(scalar) }
        }
        return quoted
    }

    private static func isTerminalControl(_ scalar: Unicode.Scalar) -> Bool { (0x80...0x9F).contains(scalar.value) }

    /// Appends a string in quotes; its bytes are UTF-8.
    @inlinable
    public static func append(_ text: some Sequence<UInt8>, to out: inout [UInt8]) {
        out.append(0x22)
        for byte in text {
            if needsEscape(byte) { writeEscaped(byte) { out.append($0) } } else { out.append(byte) }
        }
        out.append(0x22)
    }

    @inlinable @inline(__always)
    public static func needsEscape(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C || byte == 0x7F }

    /// Writes a byte below 0x80 as it stands inside a string.
    @inlinable @inline(__always)
    public static func writeEscaped(_ byte: UInt8, _ put: (UInt8) -> Void) {
        switch byte {
        case 0x22, 0x5C:
            put(0x5C)
            put(byte)
        case 0x0A:
            put(0x5C)
            put(0x6E)
        case 0x0D:
            put(0x5C)
            put(0x72)
        case 0x09:
            put(0x5C)
            put(0x74)
        case 0x00..<0x20, 0x7F:
            put(0x5C)
            put(0x75)
            put(0x30)
            put(0x30)
            put(Hex.digit(byte >> 4))
            put(Hex.digit(byte & 15))
        default: put(byte)
        }
    }
}
