import Testing

@testable import Documents

/// How many blobs a body may name, before any of them is found.
@Suite struct BlobCountTests {
    private static let digest = #""digest":"sha1-\#(String(repeating: "A", count: 27))=""#

    private func most(_ body: String) -> Int { Array(body.utf8).withUnsafeBufferPointer { BlobReferences.most(in: $0) } }

    @Test(arguments: [
        (#"{"a":{"@type":"blob",\#(digest)},"b":[{\#(digest),"@type":"blob"}]}"#, 2),
        (#"{"_attachments":{"f":{\#(digest)},"g":{\#(digest)}}}"#, 2),
        // Keys may be written with escapes, and what is no blob may be many.
        (#"{"a":{"\u0040type":"blob","dig\u0065st":"sha1-"}}"#, 2), (#"{"a":[{"digest":1},{"digest":2}],"@type":"x"}"#, 1), (#"{"digest":1}"#, 0),
        ("", 0), ("{\"", 0), ("\"digest", 0),
    ])
    func itIsNoFewerThanThereAre(_ body: String, _ count: Int) throws {
        #expect(most(body) == count)
        guard (try? JSONScanner.scanDocument(Array(body.utf8))) != nil else { return }
        #expect(try BlobReferences.find(in: Array(body.utf8)).count <= count)
    }

    @Test func aBlobTakesNoLessThanIsCountedForIt() throws {
        let blob = #"{"@type":"blob",\#(Self.digest)},"#
        #expect(blob.utf8.count >= BlobReferences.leastBytes && #""":{\#(Self.digest)},"#.utf8.count >= BlobReferences.leastBytes)
    }
}
