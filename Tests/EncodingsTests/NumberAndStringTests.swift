import Encodings
import Testing

@Suite struct NumberAndStringTests {
    @Test(arguments: [
        (0, [0x00]), (127, [0x7F]), (128, [0x80, 0x01]), (300, [0xAC, 0x02]), (UInt64.max, [UInt8](repeating: 0xFF, count: 9) + [0x01]),
    ] as [(UInt64, [UInt8])])
    func aVarintIsSevenBitsAByte(value: UInt64, bytes: [UInt8]) {
        var written: [UInt8] = []
        Varint.write(value) { written.append($0) }
        #expect(written == bytes)
        #expect(Varint.length(value) == bytes.count)
        let reading = bytes.withUnsafeBytes { Varint.read($0, at: 0) }
        #expect(reading.value == value)
        #expect(reading.length == bytes.count)
    }

    @Test func aVarintThatEndsTooEarlyOrIsTooLargeIsTold() {
        #expect([UInt8]([0x80, 0x80]).withUnsafeBytes { Varint.read($0, at: 0) }.length == 0)
        #expect([UInt8]([0x01]).withUnsafeBytes { Varint.read($0, at: 1) }.length == 0)
        let large = [UInt8](repeating: 0xFF, count: 9) + [0x02]
        #expect(large.withUnsafeBytes { Varint.read($0, at: 0) }.length == -1)
        #expect([UInt8](repeating: 0x80, count: 11).withUnsafeBytes { Varint.read($0, at: 0) }.length == -1)
    }

    @Test func aJSONStringHasItsEscapes() {
        #expect(JSONString.quoted("a\"b\\c\n\r\t\u{01}\u{7F}é") == #""a\"b\\c\n\r\t\u0001\u007fé""#)
        #expect(JSONString.quoted("a\u{9B}b") == "\"a\u{9B}b\"")
        #expect(JSONString.quoted("a\u{9B}b", forTerminals: true) == #""a\u009bb""#)
        // Nothing that is not seen, also beyond U+FFFF; what is seen stays.
        #expect(JSONString.quoted("\u{200B}\u{AD}\u{3164}\u{2003}\u{E0041}é漢🦜", forTerminals: true) == #""\u200b\u00ad\u3164\u2003\udb40\udc41é漢🦜""#)
    }

    @Test(arguments: [("a%20b", "a b"), ("100%25", "100%"), ("%C3%A9", "é"), ("plain", "plain")])
    func percentEncodedComponentsAreDecoded(component: String, text: String) {
        #expect(PercentEncoding.decode(component.utf8) == text)
        #expect(PercentEncoding.decode(PercentEncoding.encode(text).utf8) == text)
    }

    @Test(arguments: ["%", "%4", "%zz", "%ff"])
    func aMalformedEscapeIsRefused(component: String) {
        #expect(PercentEncoding.decode(component.utf8) == nil)
    }
}
