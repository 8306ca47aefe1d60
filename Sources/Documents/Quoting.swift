/// A value from outside in a form suitable for an error message: control characters, quotes and non-ASCII bytes are escaped, and it is cut after
/// `limit` bytes.
func quoted(_ bytes: some Collection<UInt8>, limit: Int = 60) -> String {
    var text = "\""
    for byte in bytes.prefix(limit) {
        switch byte {
        case 0x22, 0x5C: text += "\\" + String(UnicodeScalar(byte))
        case 0x20...0x7E: text += String(UnicodeScalar(byte))
        default:
            let digits = String(byte, radix: 16)
            text += "\\x" + (digits.utf8.count == 1 ? "0" : "") + digits
        }
    }
    let count = bytes.count
    return count > limit ? text + "\"… (\(count) bytes)" : text + "\""
}
