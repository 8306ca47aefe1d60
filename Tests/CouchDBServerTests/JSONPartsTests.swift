import Testing

@testable import CouchDBServer

/// What is stored was checked, and a disk may have altered it since.
@Suite struct JSONPartsTests {
    @Test func anAlteredTextEndsSomewhere() {
        let text = Array(#"{"a":"b","list":[1,{"c":null}],"_attachments":{"f":{"stub":true}},"d":"e"}"#.utf8)
        for index in text.indices {
            for byte in Array("\"\\{}[],: x".utf8) + [0] {
                var altered = text
                altered[index] = byte
                let parts = JSONParts(checked: altered)
                var count = 0
                for member in parts.members(of: parts.root) {
                    count += 1 + (parts.elements(of: member.value)?.count ?? 0)
                    #expect(member.value.upperBound <= altered.count && count <= altered.count)
                }
            }
        }
    }

    @Test("what came of a request that is too large names its documents, but not by the beginning of an id", arguments: [
        (#"{"new_edits":false,"docs":[{"_id":"small","n":1},{"_id":"film","pad":"xxxxxx"#, ["small", "film"]),
        (#"{"docs":[{"_id":"small"},{"_id":"fil"#, ["small"]), (#"{"docs":[{"_id":"small"},{"_id":"film""#, ["small"]), (#"{"docs":[{"pad":"xxx"#, []),
        (#"{"docs":[{"pad":{"_id":"inner"},"_id":"late"},{"_id":"_design/d"},3,{"#, ["late"]), (#"{"do"#, []), ("", []), ("[", []),
    ])
    func beginnings(_ text: String, _ ids: [String]) {
        #expect(JSONParts(checked: Array(text.utf8)).documents(.batch, atMost: 10).map(\.text) == ids)
    }

    @Test("of a request with many documents no more are named than the limit")
    func bounded() {
        let text = "{\"docs\":[" + (0..<50).map { "{\"_id\":\"d\($0)\"}," }.joined()
        #expect(JSONParts(checked: Array(text.utf8)).documents(.batch, atMost: 10).count == 10)
        let parts = JSONParts(checked: Array("[1,2,3]".utf8))
        #expect(parts.elements(of: parts.root, atMost: 2) == nil && parts.elements(of: parts.root, atMost: 3)?.count == 3)
        #expect(JSONParts(checked: Array("{\"_id\":\"film\",\"pad\":\"x".utf8)).documents(.document, atMost: 1).map(\.text) == ["film"])
    }
}
