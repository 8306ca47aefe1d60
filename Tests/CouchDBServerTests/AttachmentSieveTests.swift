import Testing

@testable import CouchDBServer

@Suite("The attachments of a batch are taken out of its text")
struct AttachmentSieveTests {
    private func sieve(_ text: String, by size: Int, _ place: AttachmentSieve.Place = .batch) -> (text: String, attachments: [[UInt8]?]) {
        var sieve = AttachmentSieve(place)
        var attachments: [[UInt8]?] = []
        var current: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            for event in sieve.feed(Array(rest.prefix(size))) {
                switch event {
                case .begins: current = []
                case .bytes(let bytes): current += bytes
                case .ends(let isWhole): attachments.append(isWhole ? current : nil)
                }
            }
            rest = rest.dropFirst(size)
        }
        return (String(decoding: sieve.text, as: UTF8.self), attachments)
    }

    @Test("wherever the pieces of the request end", arguments: [1, 2, 3, 7, 1000])
    func pieces(_ size: Int) {
        let text = #"{"docs":[{"_id":"a\"{[","data":"aGk=","_attachments":{"x y":{"content_type":"t","data":"aGVsbG8="},"z":{"data":""}},"deep":[{"_attachments":{"n":{"data":"aGk="}}}]},{"_attachments":{"p":{"data":"\/\u002B8="}}}],"new_edits":false}"#
        let expected = #"{"docs":[{"_id":"a\"{[","data":"aGk=","_attachments":{"x y":{"content_type":"t","data":0},"z":{"data":1}},"deep":[{"_attachments":{"n":{"data":"aGk="}}}]},{"_attachments":{"p":{"data":2}}}],"new_edits":false}"#
        let found = sieve(text, by: size)
        #expect(found.text == expected)
        #expect(found.attachments == [Array("hello".utf8), [], [0xFF, 0xEF]])
    }

    @Test("of a single document too, and only its own", arguments: [1, 3, 1000])
    func document(_ size: Int) {
        let text = #"{"data":"aGk=","docs":[{"_attachments":{"p":{"data":"aGk="}}}],"x":{"_attachments":{"p":{"data":"aGk="}}},"_attachments":{"p":{"data":"aGVsbG8=","deep":{"data":"aGk="}}}}"#
        let found = sieve(text, by: size, .document)
        #expect(found.text == text.replacing(#""aGVsbG8=""#, with: "0"))
        #expect(found.attachments == [Array("hello".utf8)])
    }

    @Test("what is not base64 gets no number", arguments: ["a", "aGk=aGk=", "%%%%", #"aG\nk="#, #"aG\u00e9="#])
    func wrong(_ data: String) {
        let found = sieve(#"{"docs":[{"_attachments":{"p":{"data":"\#(data)"},"q":{"data":"aGk="}}}]}"#, by: 5)
        #expect(found.text == #"{"docs":[{"_attachments":{"p":{"data":null},"q":{"data":0}}}]}"#)
        #expect(found.attachments == [nil, Array("hi".utf8)])
    }
}
