import Testing

import Encodings

@Suite struct TextFormTests {
    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func base64OfRFC4648(plain: String, text: String) {
        #expect(Base64.encode(Array(plain.utf8)) == text)
        #expect(Base64.decode(text) == Array(plain.utf8))
    }

    @Test(arguments: ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm 9", "Zm-_", "Zé="])
    func badBase64IsRefused(text: String) { #expect(Base64.decode(text) == nil) }

    @Test func bytesOfEveryLengthSurviveBothForms() {
        for count in 0..<100 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ count &* 11) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Hex.decode(Hex.encode(bytes)) == bytes)
            #expect(Base64.decodeURL(Base64.encodeURL(bytes)) == bytes)
        }
    }

    @Test(arguments: ["A", "Zg==", "Zh", "Zm9=", "Zm+_", "Zm/-", "Zm9v\n", "Zm 9", "Zé"])
    func badBase64URLIsRefused(text: String) { #expect(Base64.decodeURL(text) == nil) }

    @Test func base64URLHasNoPaddingAndTwoOtherCharacters() {
        #expect(Base64.encodeURL([0xFB, 0xFF, 0xFE, 0x66]) == "-__-Zg")
        #expect(Base64.decodeURL("-__-Zg") == [0xFB, 0xFF, 0xFE, 0x66])
        #expect(Base64.decodeURL("") == [])
    }

    @Test func hexTakesPairsOnly() {
        #expect(Hex.decode("0aF") == nil)
        #expect(Hex.decode("0g") == nil)
        #expect(Hex.decode("0aFF") == [0x0A, 0xFF])
    }
}
