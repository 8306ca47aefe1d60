import Documents
import Selectors
import Testing

@Suite("What is read of a document for a selector")
struct FieldSizeTests {
    private static let many = "[" + String(repeating: "0,", count: 400_000) + "0]"
    private static let body = Array("{\"t\":1,\"a\":\(many),\"u\":2}".utf8)

    private func fields() throws -> DocumentFields { DocumentFields(try DocumentID("d"), try RevisionID("1-aa"), isDeleted: false, body: Self.body) }

    @Test("is no more than the members that it names")
    func named() throws {
        #expect(try fields().document(with: ["t", "u"]) == json("{\"t\":1,\"u\":2}"))
        #expect(try DocumentFields.document(in: Self.body, with: ["u"]) == json("{\"u\":2}"))
    }

    @Test("is bounded: a large member is refused with a message, and is in no index")
    func bounded() throws {
        #expect(JSONTreeSize.bytes(of: Array(Self.many.utf8)) > SelectorLimits.fieldBytes)
        for read in [{ try fields().document(with: ["a"]) }, { try DocumentFields.document(in: Self.body, with: ["a"]) }] {
            let error = #expect(throws: SelectorError.self) { try read() }
            #expect(error?.reason.contains("selector_field_bytes (\(SelectorLimits.fieldBytes))") == true)
        }
        #expect(try IndexDefinition(json("{\"fields\":[\"a\"]}")).key(of: fields()) == nil)
        #expect(try IndexDefinition(json("{\"fields\":[\"t\"]}")).key(of: fields()) != nil)
    }

    @Test("is bounded for an index with a partial selector, which every write pays for")
    func partial() throws {
        let index = try IndexDefinition(json("{\"fields\":[\"t\"],\"partial_filter_selector\":{\"s\":{\"$regex\":\".{0,230}#\"}}}"))
        func key(_ text: String) throws -> [UInt8]? {
            index.key(of: DocumentFields(try DocumentID("d"), try RevisionID("1-aa"), isDeleted: false, body: Array("{\"t\":1,\"s\":\"\(text)\"}".utf8)))
        }
        #expect(try key("abc#") != nil)
        #expect(try key(String(repeating: "a", count: 1_000) + "#") == nil)
    }
}
