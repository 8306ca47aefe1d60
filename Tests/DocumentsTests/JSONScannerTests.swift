import Testing

@testable import Documents

@Suite struct JSONScannerTests {
    private func scan(_ text: String) throws -> DocumentScan { try JSONScanner.scanDocument(Array(text.utf8)) }

    @Test(arguments: [
        ("", JSONError.Kind.unexpectedEnd, 0), ("  ", .unexpectedEnd, 2), ("[]", .rootNotObject, 0), ("{", .unexpectedEnd, 1),
        ("{\"a\":1,}", .expectedKey, 7), ("{\"a\" 1}", .expectedColon, 5), ("{\"a\":1 2}", .expectedCommaOrEnd, 7),
        ("{\"a\":01}", .badNumber, 6), ("{\"a\":-}", .badNumber, 6), ("{\"a\":1.}", .badNumber, 7), ("{\"a\":.5}", .unexpectedCharacter, 5),
        ("{\"a\":tru}", .badLiteral, 5), ("{\"a\":\"\\x\"}", .badEscape, 6), ("{\"a\":\"\\ud800\"}", .loneSurrogate, 6),
        ("{\"a\":\"\n\"}", .controlCharacter, 6), ("{} x", .trailingText, 3), ("{\"a\":NaN}", .unexpectedCharacter, 5),
        ("\u{FEFF}{}", .rootNotObject, 0), (#"{"a":1,"a":1}"#, .duplicateKey, 7), (#"{"x":[{"b":1,"a":2,"\u0061":3}]}"#, .duplicateKey, 19),
    ])
    func errorsTellKindAndPlace(text: String, kind: JSONError.Kind, offset: Int) {
        let error = #expect(throws: JSONError.self) { try scan(text) }
        #expect(error?.kind == kind)
        #expect(error?.offset == offset)
    }

    @Test func twoEqualKeysAreRefusedByName() throws {
        let many = (0..<100).map { "\"key-\($0 * 37 % 100)\":\($0)" }.joined(separator: ",")
        _ = try scan("{\(many)}")
        for (body, key) in [
            (#"{"owner":"ann","n":1,"owner":"eve"}"#, "owner"), (#"{"a":{"x":1,"y":{"z":1,"b":2,"z":3}}}"#, "z"),
            (#"{"b":1,"\u0062":2}"#, "b"), (#"{"\u0062":1,"b":2}"#, "b"), (#"{"":1,"":2}"#, ""), ("{\(many),\"key-50\":1}", "key-50"),
            ("{\"a\":{\(many),\"key\\u002d7\":1}}", "key-7"), (#"{"a":"a","b":{"a":1},"a":[]}"#, "a"),
        ] {
            let error = #expect(throws: JSONError.self) { try scan(body) }
            #expect(error?.kind == .duplicateKey && error?.key == "\"\(key)\"", "\(body)")
            #expect(error?.description.contains("the key \"\(key)\" appears twice") == true)
            #expect(throws: JSONError.self) { try JSONValue(parsing: body) }
            #expect(throws: JSONError.self) { try CanonicalJSON.bytes(of: Array(body.utf8)) }
        }
        _ = try scan(#"{"a":{"x":1},"b":{"x":1},"x":{"x":{"x":1}},"A":[{"x":1},{"x":1}]}"#)
    }

    /// All keys of an object are held until it ends.
    @Test func anObjectHasOnlySoManyKeys() throws {
        let keys = (0..<JSONLimits.openKeys).map { "\"\($0 * 7919 % JSONLimits.openKeys)\":1" }.joined(separator: ",")
        _ = try scan("{\(keys)}")
        for body in ["{\(keys),\"x\":1}", "{\"x\":{\(keys)}}", "{\"x\":[{\(keys)}]}"] {
            let error = #expect(throws: JSONError.self) { try scan(body) }
            #expect(error?.kind == .tooManyKeys && error?.description.contains("openKeys = \(JSONLimits.openKeys)") == true)
        }
        // One after the other they are no burden, and what is stored is read.
        let small = (0..<60_000).map { _ in "{\"a\":1,\"b\":2}" }.joined(separator: ",")
        _ = try scan("{\"x\":[\(small)]}")
        #expect(try JSONValue(stored: Array("{\(keys),\"x\":1}".utf8))["x"] == 1)
    }

    @Test func whatAnOlderVersionStoredIsReadThoughItsKeysRepeat() throws {
        let body = Array(#"{"b":1,"a":{"@type":"blob","digest":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="},"b":2,"_id":"x"}"#.utf8)
        #expect(try JSONValue(stored: body)["b"] == 2)
        #expect(try BlobReferences.find(in: body).count == 1)
        #expect(try ReservedKeys.all(in: body) == ["_id"])
        #expect(throws: JSONError.self) { try JSONValue(stored: Array("{\"a\":1".utf8)) }
    }

    @Test func linesAndColumnsCountFromOne() {
        let error = #expect(throws: JSONError.self) { try scan("{\n \"a\": 1,\n  oops}") }
        #expect(error?.line == 3)
        #expect(error?.column == 3)
        #expect(error?.description.contains("line 3, column 3") == true)
    }

    @Test func nestingEndsAtTheLimit() throws {
        func nested(_ depth: Int) -> String {
            "{\"a\":" + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
        }
        _ = try scan(nested(100))
        let error = #expect(throws: JSONError.self) { try scan(nested(101)) }
        #expect(error?.kind == .tooDeep)
        #expect(error?.path?.utf8.starts(with: "\"/a/0/0/0".utf8) == true)
        // An older version stored deeper ones.
        _ = try JSONValue(stored: Array(nested(128).utf8))
    }

    @Test func numbersAreFinite() throws {
        let longest = String(repeating: "9", count: 308)
        for number in ["1e308", "-1.7976931348623157e308", "1e-400", "0e999", "1E+00000000000000000000001", longest, "0.\(longest)\(longest)e300"] {
            _ = try scan("{\"n\":\(number)}")
        }
        for number in ["1e400", "-1e309", "1E+999999999999999999999", longest + "9", longest + "e99"] {
            let error = #expect(throws: JSONError.self) { try scan("{\"a/b\":[1,{\"c\":2,\"n\":\(number)}]}") }
            #expect(error?.kind == .notFinite)
            #expect(error?.description.contains("/a~1b/1/n") == true)
            _ = try JSONValue(stored: Array("{\"n\":\(number)}".utf8))
        }
    }

    @Test func unusualKeysAreNamedWithTheirObject() throws {
        for (text, kind) in [
            (#"{"":1}"#, JSONError.Kind.emptyKey), (#"{"\u0000":1}"#, .nulInKey), (#"{"a\\\u0000b":1}"#, .nulInKey),
        ] {
            for (whole, place) in [(text, "at the top level"), (#"{"x":{"e":{}},"list":[0,\#(text)]}"#, "/list/1")] {
                let error = #expect(throws: JSONError.self) { try JSONScanner.scanDocument(Array(whole.utf8), unusualKeys: false) }
                #expect(error?.kind == kind)
                #expect(error?.description.contains(place) == true)
                _ = try scan(whole)
            }
        }
        // An escaped backslash before u0000 is no NUL.
        _ = try JSONScanner.scanDocument(Array(#"{"\\u0000":"","a":"\u0000"}"#.utf8), unusualKeys: false)
    }

    @Test(arguments: [
        [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xE0, 0x80, 0x80], [0xF0, 0x80, 0x80, 0x80], [0xFF], [0x80], [0xE2, 0x82],
    ])
    func badUTF8IsRefused(bytes: [UInt8]) {
        let error = #expect(throws: JSONError.self) {
            try JSONScanner.scanDocument(Array("{\"a\":\"".utf8) + bytes + Array("\"}".utf8))
        }
        #expect(error?.kind == .badUTF8)
    }

    @Test func canonicalTextIsRecognised() throws {
        #expect(try scan(#"{"a":1,"b":{"x":"é\n\u001f","y":[1,2]}}"#).isCanonical)
        for loose in [
            #"{"b":1,"a":1}"#, #"{"a": 1}"#, #"{"a":"\/"}"#, #"{"a":"\u001F"}"#, #"{"a":"\u0009"}"#, #"{"a":"\u00e9"}"#,
            #" {}"#, "{\"a\":\"\u{7F}\"}", #"{"a":"\b"}"#, #"{"a":{"z":1,"y":2}}"#,
        ] {
            #expect(try !scan(loose).isCanonical, "\(loose)")
        }
    }

    @Test func canonicalFormOfAnExample() throws {
        let body = Array("{ \"b\" : [1.0, 2e3], \"a\\u0062\":\"\\u00e9\\/\u{7F}\\b\", \"a\":{\"z\":1,\"y\":{}}, \"B\":true }".utf8)
        #expect(try text(CanonicalJSON.bytes(of: body)) == "{\"B\":true,\"a\":{\"y\":{},\"z\":1},\"ab\":\"é/\\u007f\\u0008\",\"b\":[1.0,2e3]}")
    }

    @Test func keysOrderAsBytesNotAsUTF16() throws {
        // U+FFFF comes before U+10000 in UTF-8 and after it in UTF-16.
        let body = Array("{\"\u{10000}\":1,\"\u{FFFF}\":2}".utf8)
        #expect(try text(CanonicalJSON.bytes(of: body)) == "{\"\u{FFFF}\":2,\"\u{10000}\":1}")
    }

    @Test func whatTheScanNotices() throws {
        #expect(try scan(#"{"_id":"x"}"#).hasReservedKeys)
        #expect(try scan(#"{"\u005Fid":"x"}"#).hasReservedKeys)
        #expect(try !scan(#"{"a":{"_id":"x"}}"#).hasReservedKeys)
        #expect(try scan(#"{"a":[{"@type":"blob"}]}"#).mayHoldBlobs)
        #expect(try scan(#"{"a":[{"\u0040type":"blob"}]}"#).mayHoldBlobs)
        #expect(try scan(#"{"_attachments":{}}"#).mayHoldBlobs)
        #expect(try !scan(#"{"a":{"type":"blob"}}"#).mayHoldBlobs)
        #expect(try scan("{ }").isEmpty)
        #expect(try !scan(#"{"a":{}}"#).isEmpty)
    }
}
