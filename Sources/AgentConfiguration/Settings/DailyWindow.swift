/// A daily time span, by the machine's clock and time zone; if it ends before it begins, it extends past midnight.
package struct DailyWindow: Sendable, Equatable {
    static let expected = "a time of the day as HH:MM-HH:MM, such as 22:00-06:00"
    static let pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"

    /// Minutes since midnight.
    private var begin: Int
    /// The first minute after it.
    private var end: Int

    /// Nil if the text is not a time span, or an empty one.
    package init?(_ text: String) {
        let sides = text.split(separator: "-", omittingEmptySubsequences: false)
        guard sides.count == 2, let begin = Self.minute(sides[0]), let end = Self.minute(sides[1]), begin != end, begin < 1_440 else { return nil }
        (self.begin, self.end) = (begin, end)
    }

    private static func minute(_ text: Substring) -> Int? {
        let digits = Array(text.utf8)
        guard digits.count == 5, digits[2] == UInt8(ascii: ":"), [0, 1, 3, 4].allSatisfy({ Bytes.isDigit(digits[$0]) }) else { return nil }
        func number(_ at: Int) -> Int { Int(digits[at] - 0x30) * 10 + Int(digits[at + 1] - 0x30) }
        let minute = number(0) * 60 + number(3)
        return number(3) < 60 && minute <= 1_440 ? minute : nil
    }

    /// - Parameter minute: since midnight.
    package func holds(_ minute: Int) -> Bool { begin < end ? (begin..<end).contains(minute) : minute >= begin || minute < end }
}

extension Form where Value == DailyWindow {
    static let dailyWindow = Form<DailyWindow>(
        shape: .text(pattern: DailyWindow.pattern), expected: DailyWindow.expected,
        read: { node, reading in
            guard let scalar = node.scalar, !scalar.isUnresolved, let window = DailyWindow(scalar.text) else {
                reading.reportMismatch(node, expected: DailyWindow.expected)
                return nil
            }
            return window
        })
}

extension ReplicatorSettings {
    /// - Parameter minute: since midnight, of the machine's time zone.
    package func isScheduled(at minute: Int) -> Bool { schedule.isEmpty || schedule.contains { $0.value.holds(minute) } }
}
