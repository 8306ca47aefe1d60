/// Strings in JSON's notation: in quotes, with the escapes `\" \\ \n \r \t`, and `\u00xx` in lowercase for the other control characters and DEL.
public enum JSONString {
    /// The text in quotes.
    ///
    /// - Parameter forTerminals: also escape everything for which ``isUnprintable(_:)`` is true.
    public static func quoted(_ text: String, forTerminals: Bool = false) -> String {
        var bytes: [UInt8] = []
        append(text.utf8, to: &bytes)
        guard forTerminals, text.unicodeScalars.contains(where: isUnprintable) else { return String(decoding: bytes, as: UTF8.self) }
        var quoted = ""
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            if isUnprintable(scalar) { quoted += escape(scalar) } else { quoted.unicodeScalars.append(scalar) }
        }
        return quoted
    }

    /// Whether a character can make a line appear as something else: control characters, which a terminal may interpret as commands; separators other
    /// than a plain space; and invisible characters, such as direction marks, joiners, fillers and tags.
    public static func isUnprintable(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.value < 0x7F { return scalar.value < 0x20 }
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .surrogate, .privateUse, .unassigned: return true
        default: return scalar.properties.isDefaultIgnorableCodePoint || scalar.value == 0x2800
        }
    }

    /// `\uXXXX`, twice for characters beyond U+FFFF.
    public static func escape(_ scalar: Unicode.Scalar) -> String {
        UTF16.encode(scalar)?.map { unit in
            let digits = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
        }.joined() ?? ""
    }

    /// Appends a string, given as UTF-8 bytes, in quotes.
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

    /// Writes a byte below 0x80 in its form inside a string.
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
