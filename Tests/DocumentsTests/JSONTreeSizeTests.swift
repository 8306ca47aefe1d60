import Documents
import Testing

@Suite struct JSONTreeSizeTests {
    @Test(arguments: [
        (#""""#, 2), (#""a" "#, 3), (#""a\"b":1"#, 6), (#""\\":"#, 4), (#""eight by eight, then \" more","#, 30), (#""no end"#, 7), (#""no end\"#, 8),
        (#""no end\""#, 9), (#"""#, 1),
    ])
    func aStringEndsBehindItsQuote(text: String, end: Int) {
        #expect(Array(text.utf8).withUnsafeBufferPointer { $0.endOfJSONString(0) } == end)
    }

    @Test(arguments: [
        ("1", 1), (#"{"a":[1,2,3],"b":"[,,,]{\",\"}"}"#, 6), ("[[[]]]", 4), (#""[[["#, 1), (#""[[[\"#, 1), ("", 1), ("[", 2),
    ])
    func whatStandsInStringsIsNoValue(text: String, values: Int) {
        let bytes = Array(text.utf8)
        #expect(JSONTreeSize.values(in: bytes[...]) == values)
        // A part of a longer text counts for itself.
        #expect(JSONTreeSize.values(in: (Array("[[".utf8) + bytes)[2...]) == values)
        #expect(JSONTreeSize.bytes(of: bytes) >= 2 * bytes.count + values)
    }
}
