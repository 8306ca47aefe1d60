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
}
