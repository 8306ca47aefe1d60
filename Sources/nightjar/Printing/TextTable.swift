import Agent
import Encodings

/// Columns of text for a terminal.
struct TextTable: Sendable {
    private let header: [String]
    private var rows: [[String]] = []
    private let alignsRight: Set<Int>

    /// - Parameter alignsRight: columns of numbers.
    init(_ header: [String], alignsRight: Set<Int> = []) {
        self.header = header
        self.alignsRight = alignsRight
    }

    mutating func add(_ row: [String]) { rows.append(row.map(Self.printable)) }

    var isEmpty: Bool { rows.isEmpty }

    /// Lines, with two spaces between columns.
    var text: String {
        let all = [header] + rows
        let widths = header.indices.map { column in all.map { Self.width($0[column]) }.max() ?? 0 }
        return all.map { row in
            var line = ""
            for (column, cell) in row.enumerated() {
                let gap = String(repeating: " ", count: widths[column] - Self.width(cell))
                line += alignsRight.contains(column) ? gap + cell : column == row.count - 1 ? cell : cell + gap
                if column < row.count - 1 { line += "  " }
            }
            return line + "\n"
        }.joined()
    }

    /// Text from peers and plugins, made safe for a terminal and kept on one line: unprintable characters are escaped as in source
    /// code.
    static func printable(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: isControl) else { return text }
        var clean = ""
        for scalar in text.unicodeScalars {
            guard isControl(scalar) else {
                clean.unicodeScalars.append(scalar)
                continue
            }
            switch scalar {
            case "\n": clean += "\\n"
            case "\t": clean += "\\t"
            case "\r": clean += "\\r"
            default: clean += JSONString.escape(scalar)
            }
        }
        return clean
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool { JSONString.isUnprintable(scalar) }

    private static func width(_ text: String) -> Int { text.unicodeScalars.count }
}
