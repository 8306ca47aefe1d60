/// Swift or C source without what only people read: comments and the text of strings become blanks. Code inside `\(…)` stays.
struct CodeText {
    /// As long as the source, line for line.
    let bytes: [UInt8]
    let isC: Bool

    init(_ source: [UInt8], isC: Bool = false) {
        var reader = Reader(source: source, isC: isC)
        reader.code(until: nil)
        bytes = reader.out
        self.isC = isC
    }

    /// Of a file of the package.
    init(file: String) {
        self.init(SourceFiles.bytes(of: "\(SourceFiles.root)/\(file)"), isC: !file.hasSuffix(".swift"))
    }

    /// The number of the line that holds the byte, from 1.
    func line(of index: Int) -> Int { 1 + bytes[..<index].count { $0 == UInt8(ascii: "\n") } }

    private struct Reader {
        let source: [UInt8]
        let isC: Bool
        var at = 0
        var out: [UInt8] = []

        init(source: [UInt8], isC: Bool) {
            self.source = source
            self.isC = isC
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
                } else if isC, byte == UInt8(ascii: "'") {
                    character()
                } else if !isC, byte == UInt8(ascii: "#"), let hashes = hashesBeforeQuote() {
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

        /// C's, such as `'"'`.
        mutating func character() {
            blank()
            while at < source.count, source[at] != UInt8(ascii: "'"), source[at] != UInt8(ascii: "\n") {
                blank(source[at] == UInt8(ascii: "\\") ? 2 : 1)
            }
            if at < source.count, source[at] == UInt8(ascii: "'") { blank() }
        }

        /// They nest in Swift.
        mutating func blockComment() {
            var depth = 0
            while at < source.count {
                if stands("/*"), !isC || depth == 0 {
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
            let isLong = !isC && stands("\"\"\"")
            let close = (isLong ? "\"\"\"" : "\"") + String(repeating: "#", count: hashes)
            let escape = "\\" + String(repeating: "#", count: hashes)
            blank(isLong ? 3 : 1)
            while at < source.count {
                if stands(close) { return blank(close.utf8.count) }
                if !isC, stands(escape + "(") {
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
