import Testing

import Documents

@Suite struct JSONValueTests {
    @Test func numbersKeepTheirText() throws {
        let value = try JSONValue(parsing: #"{"a":1.50,"b":12345678901234567890123,"c":-0}"#)
        #expect(value.text == #"{"a":1.50,"b":12345678901234567890123,"c":-0}"#)
        #expect(value["a"]?.asDouble == 1.5)
        #expect(value["a"]?.asInt64 == nil)
        #expect(try JSONValue(parsing: "1e3").asInt64 == 1000)
        #expect(try JSONValue(parsing: "18446744073709551615").asUInt64 == .max)
        #expect(try JSONValue(stored: Array("1e999".utf8)).asDouble == nil)
        #expect(try JSONValue(stored: Array("1e999".utf8)).asInt64 == nil)
        #expect(JSONNumber(Double.nan) == nil)
        for bad in ["", "+1", "1 ", " 1", "true", "0x1", "1.", "\"1\"", "[1]"] { #expect(JSONNumber(parsing: bad) == nil, "\(bad)") }
        #expect(JSONNumber(parsing: "-1.5E+2")?.asInt64 == -150)
    }

    @Test func keysAndStringsCompareAsBytes() {
        let composed: JSONValue = ["\u{E9}": 1]
        let decomposed: JSONValue = ["e\u{301}": 1]
        #expect(composed != decomposed)
        #expect(JSONValue.string("\u{E9}") != JSONValue.string("e\u{301}"))
        #expect(composed["e\u{301}"] == nil)
    }

    @Test func ofEqualKeysThatAreStoredTheLastCounts() throws {
        let value = try JSONValue(stored: Array(#"{"a":1,"b":2,"a":3}"#.utf8))
        #expect(value["a"] == 3)
        #expect(value == ["b": 2, "a": 3])
        #expect(text(of: value.canonicalBytes()) == #"{"a":3,"b":2}"#)
    }

    @Test func objectsCanBeChanged() {
        var object = JSONObject()
        object["x"] = 1
        object["y"] = [true, nil]
        object["x"] = "z"
        #expect(JSONValue.object(object).text == #"{"x":"z","y":[true,null]}"#)
        object["x"] = nil
        #expect(JSONValue.object(object).text == #"{"y":[true,null]}"#)
    }

    @Test func orderOfMembersDoesNotMatterForEquality() throws {
        #expect(try JSONValue(parsing: #"{"a":1,"b":[2]}"#) == JSONValue(parsing: #"{"b":[2],"a":1}"#))
        #expect(try JSONValue(parsing: "[1,2]") != JSONValue(parsing: "[2,1]"))
    }

    private func text(of bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
