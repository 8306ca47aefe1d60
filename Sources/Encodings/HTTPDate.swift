import Glibc

/// A point in time as HTTP writes it (RFC 9110, section 5.6.7).
package enum HTTPDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, also with dashes in the date, or `Sun Nov  6 08:49:37 1994`, into seconds since 1970; nil for anything
    /// else.
    package static func seconds(_ text: String) -> Int64? {
        let words = text.utf8.split(whereSeparator: { $0 == 0x20 || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ",") })
            .map { String(Substring($0)) }
        guard words.count >= 5 else { return nil }
        let isAsctime = months.contains(words[1].lowercased())
        let (dayWord, monthWord, yearWord, clockWord) = isAsctime ? (words[2], words[1], words[4], words[3]) : (words[1], words[2], words[3], words[4])
        guard let day = Int32(dayWord), let month = months.firstIndex(of: monthWord.lowercased()), var year = Int32(yearWord) else { return nil }
        let clock = clockWord.split(separator: ":").compactMap { Int32($0) }
        guard clock.count == 3, (0...23).contains(clock[0]), (0...59).contains(clock[1]), (0...60).contains(clock[2]), (1...31).contains(day),
            (0...9999).contains(year)
        else { return nil }
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        var fields = tm()
        fields.tm_year = year - 1900
        fields.tm_mon = Int32(month)
        fields.tm_mday = day
        (fields.tm_hour, fields.tm_min, fields.tm_sec) = (clock[0], clock[1], clock[2])
        return Int64(timegm(&fields))
    }
}

/// The header `Retry-After` (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// `retry_after_read`: one day; longer times are reduced to it.
    private static let longest = 86_400

    /// Seconds to wait. A date is relative to the answer's own `Date`, since the clock here may differ from the server's. Nil if the header is absent
    /// or invalid, or if it is a date and there is no `Date`.
    package static func seconds(_ value: String?, date: String?) -> Int? {
        guard let value else { return nil }
        if let seconds = Int(value) { return min(max(seconds, 0), longest) }
        if !value.isEmpty, value.utf8.allSatisfy({ (0x30...0x39).contains($0) }) { return longest }
        guard let end = HTTPDate.seconds(value), let start = date.flatMap(HTTPDate.seconds) else { return nil }
        return Int(min(max(end - start, 0), Int64(longest)))
    }
}
