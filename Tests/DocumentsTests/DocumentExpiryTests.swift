import Documents
import Testing

/// What `_exp` may hold.
@Suite("The time of a document")
struct DocumentExpiryTests {
    @Test("numbers are lengths of time up to 30 days, and times beyond", arguments: [
        ("0", DocumentExpiry.never), ("null", .never), ("1", .after(seconds: 1)), ("2592000", .after(seconds: 2_592_000)), ("2592001", .at(2_592_001)),
        ("1893456000", .at(1_893_456_000)), (#""3600""#, .after(seconds: 3_600)), (#""1893456000""#, .at(1_893_456_000)),
    ])
    func numbers(json: String, expected: DocumentExpiry) throws {
        #expect(DocumentExpiry(try JSONValue(parsing: Array(json.utf8))) == expected)
    }

    // The seconds are those of `date -u -d TIME +%s`.
    @Test("ISO 8601 times", arguments: [
        ("2030-01-01T00:00:00Z", 1_893_456_000), ("2024-02-29T23:59:59Z", 1_709_251_199), ("2024-02-29T23:59:59.999Z", 1_709_251_199),
        ("2024-03-01T01:59:59+02:00", 1_709_251_199), ("2024-02-29T18:29:59-05:30", 1_709_251_199), ("2000-12-31T12:00:00Z", 978_264_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ])
    func times(text: String, seconds: Int64) {
        #expect(DocumentExpiry(.string(text)) == .at(seconds))
    }

    @Test("what is not a time is refused, with its name", arguments: [
        "true", "-1", "1.5", "{}", "[]", #""""#, #""tomorrow""#, #""2023-02-29T00:00:00Z""#, #""2030-01-01""#, #""2030-01-01T00:00:00""#, #""2030-13-01T00:00:00Z""#,
        #""2030-01-01T24:00:00Z""#, #""2030-01-01T00:00:00+0200""#, #""1969-12-31T23:59:59Z""#, "253402300800", #""2030-01-01T00:00:00Zx""#,
    ])
    func wrong(json: String) throws {
        let value = try JSONValue(parsing: Array(json.utf8))
        #expect(DocumentExpiry(value) == nil)
        let problem = try #require(ReservedKeys.problem(in: JSONObject([JSONObject.Member(key: "_exp", value: value)])))
        #expect(problem.hasPrefix("_exp must be seconds from now"))
    }

    @Test("a length of time begins when it is saved")
    func lengths() {
        #expect(DocumentExpiry.after(seconds: 60).due(now: 1_000) == 1_060)
        #expect(DocumentExpiry.at(5_000_000).due(now: 1_000) == 5_000_000)
        #expect(DocumentExpiry.never.due(now: 1_000) == nil)
    }
}
