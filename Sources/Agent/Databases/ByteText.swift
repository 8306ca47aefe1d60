/// Formats a number of bytes for people, rounded up to a tenth of a unit: a limit never reads as less than it is.
enum ByteText {
    private static let units: [(name: String, bytes: Int)] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)]

    /// - Parameter bytes: not negative.
    static func of(_ bytes: Int) -> String {
        guard bytes >= 1 << 10 else { return "\(bytes) bytes" }
        for unit in units {
            let (whole, rest) = bytes.quotientAndRemainder(dividingBy: unit.bytes)
            // The quotient first: ten times the number may not fit.
            let tenths = whole * 10 + (rest * 10 + unit.bytes - 1) / unit.bytes
            guard tenths < 10_240 || unit.name == units.last?.name else { continue }
            return tenths % 10 == 0 ? "\(tenths / 10) \(unit.name)" : "\(tenths / 10).\(tenths % 10) \(unit.name)"
        }
        return "\(bytes) bytes"
    }
}
