import Glibc

/// Formats times for logs, status and JSON: ISO 8601, UTC.
package enum Timestamp {
    /// With milliseconds.
    static func format(wallNanoseconds: Int64) -> String {
        format(wallNanoseconds / 1_000_000_000, milliseconds: Int(wallNanoseconds / 1_000_000 % 1_000))
    }

    /// Seconds since 1970.
    package static func format(_ seconds: Int64) -> String { format(seconds, milliseconds: nil) }

    private static func format(_ seconds: Int64, milliseconds: Int?) -> String {
        var seconds = time_t(seconds)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        let text =
            "\(pad(Int(parts.tm_year) + 1900, 4))-\(pad(Int(parts.tm_mon) + 1, 2))-\(pad(Int(parts.tm_mday), 2))T"
            + "\(pad(Int(parts.tm_hour), 2)):\(pad(Int(parts.tm_min), 2)):\(pad(Int(parts.tm_sec), 2))"
        return text + (milliseconds.map { ".\(pad($0, 3))" } ?? "") + "Z"
    }

    private static func pad(_ value: Int, _ width: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, width - text.utf8.count)) + text
    }
}
