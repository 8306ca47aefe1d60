/// The meaning of a document's `_exp`: when the document is to be purged. The name and the accepted values are Sync Gateway's.
public enum DocumentExpiry: Sendable, Equatable {
    /// It stays; `null` and 0 cancel an earlier expiry.
    case never
    /// This many seconds after it was saved.
    case after(seconds: Int64)
    /// At this time, in seconds since 1970.
    case at(Int64)

    /// Numbers up to 30 days are durations, greater ones are times.
    public static let longestLength: Int64 = 30 * 86_400
    /// The beginning of the year 2000: a number before that is probably a mistaken duration.
    public static let earliestPlausible: Int64 = 946_684_800
    /// The end of the year 9999.
    static let latest: Int64 = 253_402_300_799

    public static let expected = "seconds from now (up to 30 days), a time in seconds since 1970, an ISO 8601 time such as 2030-01-31T12:00:00Z, or null"

    /// Nil for anything else.
    public init?(_ value: JSONValue) {
        switch value {
        case .null: self = .never
        case .string(let text):
            if let number = Int64(text) { self.init(number) } else if let time = Self.seconds(iso: text) { self.init(time: time) } else { return nil }
        default:
            guard let number = value.asInt64 else { return nil }
            self.init(number)
        }
    }

    private init?(_ number: Int64) {
        guard (0...Self.latest).contains(number) else { return nil }
        self = number == 0 ? .never : number <= Self.longestLength ? .after(seconds: number) : .at(number)
    }

    private init?(time: Int64) {
        guard (Self.longestLength + 1...Self.latest).contains(time) else { return nil }
        self = .at(time)
    }

    /// In a form that the initializer accepts.
    public var json: String {
        switch self {
        case .never: "null"
        case .after(let number), .at(let number): "\(number)"
        }
    }

    /// Seconds since 1970; nil if it never expires.
    public func due(now: Int64) -> Int64? {
        switch self {
        case .never: nil
        case .after(let seconds): now + seconds
        case .at(let time): time
        }
    }

    /// Parses `YYYY-MM-DDTHH:MM:SS`, with an optional fraction, which is ignored, followed by `Z` or `+HH:MM`.
    private static func seconds(iso text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ range: Range<Int>) -> Int64? {
            guard range.upperBound <= bytes.count, bytes[range].allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
            return bytes[range].reduce(0) { $0 * 10 + Int64($1 - 0x30) }
        }
        guard bytes.count >= 20, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"), bytes[10] == UInt8(ascii: "T"),
            bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            let year = number(0..<4), let month = number(5..<7), let day = number(8..<10), let hour = number(11..<13), let minute = number(14..<16),
            let second = number(17..<19), year >= 1970, (1...12).contains(month), day >= 1, day <= days(month, year), hour <= 23, minute <= 59, second <= 60
        else { return nil }
        var at = 19
        if bytes[at] == UInt8(ascii: ".") {
            at += 1
            while at < bytes.count, (0x30...0x39).contains(bytes[at]) { at += 1 }
        }
        guard at < bytes.count else { return nil }
        var offset: Int64 = 0
        if bytes[at] == UInt8(ascii: "+") || bytes[at] == UInt8(ascii: "-") {
            guard bytes.count == at + 6, bytes[at + 3] == UInt8(ascii: ":"), let hours = number(at + 1..<at + 3), let minutes = number(at + 4..<at + 6),
                hours <= 23, minutes <= 59
            else { return nil }
            offset = (hours * 3_600 + minutes * 60) * (bytes[at] == UInt8(ascii: "+") ? 1 : -1)
        } else {
            guard bytes.count == at + 1, bytes[at] == UInt8(ascii: "Z") else { return nil }
        }
        var total = day - 1
        for before in 1..<month { total += days(before, year) }
        for before in 1970..<year { total += isLeap(before) ? 366 : 365 }
        return ((total * 24 + hour) * 60 + minute) * 60 + second - offset
    }

    private static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    private static func days(_ month: Int64, _ year: Int64) -> Int64 {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
