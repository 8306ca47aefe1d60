import Documents

/// Text for people and for programs.
enum Format {
    /// About three significant digits, without an exponent.
    static func number(_ value: Double) -> String {
        guard value.isFinite else { return "-" }
        let size = value.magnitude
        return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3)
    }

    static func fixed(_ value: Double, _ places: Int) -> String {
        var scale = 1
        for _ in 0..<places { scale *= 10 }
        let scaled = (value.magnitude * Double(scale)).rounded()
        guard scaled < 1e15 else { return "\(value)" }
        let whole = Int(scaled)
        var text = (value < 0 ? "-" : "") + "\(whole / scale)"
        if places > 0 { text += "." + padded(whole % scale, places) }
        return text
    }

    /// With leading zeros.
    static func padded(_ value: Int, _ digits: Int) -> String {
        let text = "\(value)"
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }

    static func quoted(_ text: String) -> String {
        String(decoding: JSONValue.string(text).serialize(), as: UTF8.self)
    }

    /// Columns as wide as their widest cell: the first left-aligned, numbers right-aligned.
    static func table(_ rows: [[String]]) -> String {
        var widths: [Int] = []
        for row in rows {
            for (index, cell) in row.enumerated() {
                if index == widths.count { widths.append(0) }
                widths[index] = max(widths[index], cell.count)
            }
        }
        var text = ""
        for row in rows {
            var line = " "
            for (index, cell) in row.enumerated() {
                let space = String(repeating: " ", count: widths[index] - cell.count)
                let isNumber = index > 0 && (cell.utf8.first.map { $0 >= 0x30 && $0 <= 0x39 || $0 == 0x2D } ?? false)
                line += " " + (isNumber ? space + cell : cell + space)
            }
            while line.last == " " { line.removeLast() }
            text += line + "\n"
        }
        return text
    }
}
