/// Swift source without what only people read: comments and the text of strings become blanks. Code inside `\(…)` stays.
struct CodeText {
    /// As long as the source, line for line.
    let bytes: [UInt8]

    init(_ source: [UInt8]) {
        var reader = Reader(source: source)
        reader.code(until: nil)
        bytes = reader.out
    }

    /// The number of the line that holds the byte, from 1.
    func line(of index: Int) -> Int { 1 + bytes[..<index].count { $0 == UInt8(ascii: "\n") } }

    private struct Reader {
        let source: [UInt8]
        var at = 0
        var out: [UInt8] = []

        init(source: [UInt8]) {
            self.source = source
            out.reserveCapacity(source.count)
        }

        func stands(_ text: String) -> Bool { source[at...].starts(with: text.utf8) }

        mutating func keep() {
            out.append(source[at])
            at += 1
        }

        mutating func blank(_ count: Int = 1) {
            for _ in 0..<min(count, source.count - at) {
                out.append(source[at] == UInt8(ascii: "\n") ? UInt8(ascii: "\n") : UInt8(ascii: " "))
                at += 1
            }
        }

        /// Code up to the end, or up to the parenthesis that closes an interpolation.
        mutating func code(until end: UInt8?) {
            var depth = 0
            while at < source.count {
                let byte = source[at]
                if stands("//") {
                    while at < source.count, source[at] != UInt8(ascii: "\n") { blank() }
                } else if stands("/*") {
                    blockComment()
                } else if byte == UInt8(ascii: "\"") {
                    string(hashes: 0)
                } else if byte == UInt8(ascii: "#"), let hashes = hashesBeforeQuote() {
                    blank(hashes)
                    string(hashes: hashes)
                } else if let end, byte == end, depth == 0 {
                    return
                } else {
                    if byte == UInt8(ascii: "(") { depth += 1 }
                    if byte == UInt8(ascii: ")") { depth -= 1 }
                    keep()
                }
            }
        }

        func hashesBeforeQuote() -> Int? {
            let count = source[at...].prefix { $0 == UInt8(ascii: "#") }.count
            return at + count < source.count && source[at + count] == UInt8(ascii: "\"") ? count : nil
        }

        /// They nest.
        mutating func blockComment() {
            var depth = 0
            while at < source.count {
                if stands("/*") {
                    depth += 1
                    blank(2)
                } else if stands("*/") {
                    depth -= 1
                    blank(2)
                    if depth == 0 { return }
                } else {
                    blank()
                }
            }
        }

        mutating func string(hashes: Int) {
            let isLong = stands("\"\"\"")
            let close = (isLong ? "\"\"\"" : "\"") + String(repeating: "#", count: hashes)
            let escape = "\\" + String(repeating: "#", count: hashes)
            blank(isLong ? 3 : 1)
            while at < source.count {
                if stands(close) { return blank(close.utf8.count) }
                if stands(escape + "(") {
                    blank(escape.utf8.count + 1)
                    code(until: UInt8(ascii: ")"))
                    blank()
                } else if stands(escape) {
                    blank(escape.utf8.count + 1)
                } else {
                    blank()
                }
            }
        }
    }
}
