import TestSupport
import Testing

@testable import Documents

/// What is JSON, case by case.
enum JSONCorpus {
    /// Values, each as the member of an object.
    static let values = [
        "0", "-0", "-0.0", "1", "10", "-1", "0.5", "-0.5e-7", "1E22", "1e+3", "1.50", "9007199254740993", "9223372036854775807", "-9223372036854775808",
        "9223372036854775808", "123456789012345678901234567890", "0.1000000000000000055511151231257827",
        "true", "false", "null", "[]", "{}", "[[],{}]", "[1,2,3]", "[ 1 ,\t2\r\n, 3 ]", "[null]", #"[{"a":[{"b":[]}]}]"#, #"[{"a":1},{"a":1}]"#,
        #"{"":0}"#, #"{"a":{"a":{"a":1}}}"#, #"{"a":1,"A":2,"á":3}"#, #"{"e\u0301":1,"\u00e9":2}"#, #"{"a\u0000b":1,"a":2}"#, #"{"1":1,"01":2}"#,
        "\"\"", #"" ""#, #""a""#, #""\"\\\/\b\f\n\r\t""#, #""\u0000""#, #""\u001f\u007f""#, #""\u00e9\u00E9""#, #""\ud834\udd1e""#, #""\uDBFF\uDFFF""#,
        #""\uFFFE\uFFFF""#, #""\\u0061""#, #""\\""#, "\"\u{7F}\"", "\"\u{2028}\u{2029}\"", "\"\u{FFFF}\u{10FFFF}\"", "\"\u{FEFF}\"", "\"é\u{301}\"",
        #""// no comment /* nor this */""#, #""{\"a\":1}""#,
    ]

    /// What is none.
    static let faults = [
        "", " ", ",", "]", "[", "{", "}", "[1", "[1,", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1;2]", "[1}", "[\"a\":1]",
        #"{"a"}"#, #"{"a":}"#, #"{"a" 1}"#, #"{"a":1,}"#, #"{,"a":1}"#, #"{"a":1 "b":2}"#, #"{"a":1,,"b":2}"#, #"{"a"::1}"#, "{a:1}", "{'a':1}", "{1:1}",
        "{null:1}", #"{"a":1]"#, #"{"a":1,"a":1}"#, #"{"a":1,"\u0061":2}"#, #"{"\u00e9":1,"é":2}"#, #"{"b":{"a":1,"c":[],"a":2}}"#, #"[{"x":[{"y":1,"y":1}]}]"#,
        #"{"":1,"":1}"#, #"{"\/":1,"/":2}"#,
        "01", "-01", "00", "+1", "-", "--1", "- 1", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1eE2", "1e1.5", "0x1F", "0b1", "1_000", "1,5", "1 2", "1a", "１",
        "NaN", "nan", "-NaN", "Infinity", "-Infinity", "inf", "True", "TRUE", "nul", "nulll", "truefalse", "undefined", "None",
        "\"", #""a"#, #""\"#, #""\x""#, #""\'""#, #""\a""#, #""\0""#, #""\u""#, #""\u12""#, #""\u12G4""#, #""\U00000061""#, #""\u{61}""#, "'a'", "`a`", "a",
        #""\ud800""#, #""\udc00""#, #""\ud800\ud800""#, #""\udc00\ud800""#, #""\ud800\u0061""#, #""\ud800a""#, #""\ud83d\\ude00""#,
        "\"\t\"", "\"\n\"", "\"\r\"", "\"\u{0}\"", "\"\u{1F}\"", #""a" "b""#, #""a"b"#,
        "\u{A0}1", "\u{FEFF}1", "\u{C}1", "\u{B}1", "\u{2028}1", "\u{0}1", "1\u{0}", "/* a */ 1", "1 // a", "# a", "1 # a", "(1)", "<1>", "\\u0031", "@1",
    ]

    /// In a text: no UTF-8.
    static let badBytes: [[UInt8]] = [
        [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF],
        [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x9F, 0x98], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF], [0xFF, 0xFE],
    ]
}

/// The scanner, the value reader, the canonical form and both of Lua's readers say the same of each case, and what they say is right. Two of them
/// that differ would show a filter another document than the next peer gets. One after the other with what is replayed: Lua's are shared.
extension ReplayTests {
    private func agree(_ bytes: [UInt8]) async {
        do { try await offThread { try FuzzTarget.json.run(bytes) } } catch let finding as FuzzFinding {
            Issue.record("\(String(decoding: bytes, as: UTF8.self)): \(finding)")
        } catch {}
    }

    @Test("what is JSON is read, and all readers read the same")
    func readJSON() async throws {
        for value in JSONCorpus.values {
            let body = Array("{\"x\":\(value)}".utf8)
            #expect(throws: Never.self, "\(value)") { _ = try JSONScanner.scanDocument(body) }
            for bytes in [body, Array(value.utf8), Array(" {\"x\":[\(value),\(value)],\"y\":{\"z\":\(value)}}\n".utf8)] { await agree(bytes) }
        }
    }

    @Test("what is not JSON is refused by all readers")
    func refuseJSON() async throws {
        for fault in JSONCorpus.faults.map({ Array($0.utf8) }) + JSONCorpus.badBytes.map({ [0x22] + $0 + [0x22] }) {
            let body = Array("{\"x\":".utf8) + fault + [0x7D]
            #expect(throws: JSONError.self, "\(String(decoding: fault, as: UTF8.self))") { _ = try JSONScanner.scanDocument(body) }
            for bytes in [body, Array("{\"a\":[0,".utf8) + fault + Array("]}".utf8), fault] { await agree(bytes) }
        }
        // After a document that is one.
        for rest in ["x", "{}", ",", "]", "\u{0}", "\u{FEFF}", "//"] {
            let body = Array("{\"x\":1}\(rest)".utf8)
            #expect(throws: JSONError.self, "\(rest)") { _ = try JSONScanner.scanDocument(body) }
            await agree(body)
        }
    }
}
