/// The rules for names of plugins and modules, and suggestions for misspelt ones.
enum PluginName {
    static let rule = "lower case letters, digits, _ and -, beginning with a letter or digit"

    /// `[a-z0-9][a-z0-9_-]*`, at most 100 bytes.
    static func isValid(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 100, isLowerOrDigit(first) else { return false }
        return name.utf8.allSatisfy { isLowerOrDigit($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
    }

    /// `^[a-z0-9_][A-Za-z0-9_.-]*$`, at most 100 bytes, no empty part between dots.
    static func isModule(_ name: some StringProtocol) -> Bool {
        guard let first = name.utf8.first, name.utf8.count <= 100, isLowerOrDigit(first) || first == UInt8(ascii: "_") else { return false }
        let dot = UInt8(ascii: ".")
        var previous = dot
        for byte in name.utf8 {
            guard isLowerOrDigit(byte) || (0x41...0x5A).contains(byte) || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-") || byte == dot
            else { return false }
            if byte == dot && previous == dot { return false }
            previous = byte
        }
        return previous != dot
    }

    private static func isLowerOrDigit(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) }

    /// The candidate that was most likely meant by a misspelt name, or nil.
    static func nearest(to name: String, among candidates: some Sequence<String>) -> String? {
        var best: (distance: Int, name: String)?
        for candidate in candidates {
            let distance = editDistance(Array(name.utf8.prefix(100)), Array(candidate.utf8.prefix(100)))
            if distance <= max(2, name.utf8.count / 3), distance < best?.distance ?? .max { best = (distance, candidate) }
        }
        return best?.name
    }

    private static func editDistance(_ a: [UInt8], _ b: [UInt8]) -> Int {
        var row = Array(0...b.count)
        for (i, x) in a.enumerated() {
            var diagonal = row[0]
            row[0] = i + 1
            for (j, y) in b.enumerated() {
                let next = min(row[j + 1] + 1, row[j] + 1, diagonal + (x == y ? 0 : 1))
                diagonal = row[j + 1]
                row[j + 1] = next
            }
        }
        return row[b.count]
    }
}
