import Encodings
import Testing

/// Dates of HTTP, and how long an answer asks to wait.
@Suite struct HTTPDateTests {
    @Test("the three forms of a date give the same time; what is not a date gives none", arguments: [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777), ("Sun Nov  6 08:49:37 1994", 784_111_777),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Sun, 06 Foo 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 08:49 GMT", nil), ("120", nil), ("", nil),
        ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("Sun, 06 Nov 1994 2147483647:00:00 GMT", nil), ("Sun Nov 6", nil),
    ] as [(String, Int64?)])
    func dates(_ text: String, _ seconds: Int64?) {
        #expect(HTTPDate.seconds(text) == seconds)
    }

    @Test("Retry-After is seconds, or a date that counts from the answer's own Date, a day at most", arguments: [
        ("7", nil, 7), ("-5", nil, 0), ("9999999", nil, 86_400), ("99999999999999999999999", nil, 86_400), ("soon", nil, nil),
        (nil, "Sun, 06 Nov 1994 08:49:37 GMT", nil),
        ("Sun, 06 Nov 1994 08:51:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 120),
        ("Sun, 06 Nov 1994 08:49:30 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 2094 08:49:30 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 86_400),
        ("Sun, 06 Nov 1994 08:51:37 GMT", nil, nil), ("Sun, 06 Nov 1994 08:51:37 GMT", "yesterday", nil),
    ] as [(String?, String?, Int?)])
    func waits(_ value: String?, _ date: String?, _ seconds: Int?) {
        #expect(RetryAfter.seconds(value, date: date) == seconds)
    }
}
