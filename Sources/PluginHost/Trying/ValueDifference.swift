import LuaRuntime

/// The differences between two values, field by field.
enum ValueDifference {
    /// Differences that are listed; any more are only counted.
    static let mostLines = 20
    /// Bytes of a value that are shown.
    private static let mostBytes = 200

    static func lines(got: LuaValue, expected: LuaValue) -> [String] {
        var found: [String] = []
        var more = 0
        compare(got, expected, "", &found, &more)
        if more > 0 { found.append("and \(more) more") }
        return found
    }

    private static func compare(_ got: LuaValue, _ expected: LuaValue, _ path: String, _ found: inout [String], _ more: inout Int) {
        if got == expected { return }
        switch (got, expected) {
        case (.object(let left), .object(let right)):
            for member in left { compare(member.value, expected[member.key], path + name(member.key, path), &found, &more) }
            for member in right where got[member.key] == .missing { compare(.missing, member.value, path + name(member.key, path), &found, &more) }
        case (.array(let left), .array(let right)):
            for index in 0..<max(left.count, right.count) {
                compare(
                    index < left.count ? left[index] : .missing, index < right.count ? right[index] : .missing, "\(path)[\(index + 1)]",
                    &found, &more)
            }
        default:
            guard found.count < mostLines else {
                more += 1
                return
            }
            found.append("\(path.isEmpty ? "value" : path): got \(shown(got)), expected \(shown(expected))")
        }
    }

    private static func name(_ key: String, _ path: String) -> String {
        let isPlain = !key.isEmpty && key.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x5F
        }
        return isPlain ? (path.isEmpty ? key : "." + key) : "[" + LuaValue.text(key).json.text + "]"
    }

    private static func shown(_ value: LuaValue) -> String {
        if value == .missing { return "nothing" }
        let text = value.json.text
        return text.utf8.count <= mostBytes ? text : String(decoding: text.utf8.prefix(mostBytes), as: UTF8.self) + "…"
    }
}
