import TestRandomness
import Testing

@testable import Documents

@Suite struct BlobReferenceTests {
    let first = "sha1-ERWD9RaGBqLSWOQ+96TZ6Kisjck="
    let second = "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="

    private func blob(_ digest: String, type: String = "text/plain") -> String {
        #"{"@type":"blob","digest":"\#(digest)","length":27,"content_type":"\#(type)"}"#
    }

    @Test func blobsAreFoundAnywhere() throws {
        let body = #"{"a":[1,{"b":\#(blob(first))}],"c":\#(blob(first)),"d":\#(blob("sha1-bad")),"_attachments":{"old":{"digest":"\#(second)","stub":true}}}"#
        let found = try BlobReferences.find(in: Array(body.utf8))
        #expect(found.map(\.digest.text) == [first, second])
        #expect(found.first?.length == 27)
        #expect(found.first?.contentType == "text/plain")
        #expect(try BlobReferences.find(in: Array(#"{"a":1}"#.utf8)).isEmpty)
        #expect(try BlobReferences.inline(in: JSONValue(parsing: body)).map(\.pointer) == ["/a/1/b", "/c"])
    }

    @Test func aTypeKeyWithEscapesIsABlobToo() throws {
        let body = #"{"a":{"\u0040type":"blob","digest":"\#(first)"}}"#
        #expect(try BlobReferences.find(in: Array(body.utf8)).count == 1)
    }

    /// As it was found in the values of a whole body.
    private func naive(_ body: [UInt8]) throws -> [BlobReference] {
        let root = try JSONValue(stored: body)
        var references: [BlobReference] = []
        func add(_ reference: BlobReference) {
            guard let place = references.firstIndex(where: { $0.digest == reference.digest }) else { return references.append(reference) }
            references[place].add(reference)
        }
        BlobReferences.visit(root, pointer: "", skippingAttachments: true) { _, object in BlobReference(object).map { add($0) } }
        for entry in root["_attachments"]?.asObject?.members ?? [] {
            guard let object = entry.value.asObject, let reference = BlobReference(object) else { continue }
            add(reference)
        }
        return references
    }

    @Test(arguments: [("3", "3", false), ("3", "4", true), ("-5", "-5", true), ("2.5", "2", true), ("null", "3", false), ("\"3\"", "3", false), ("3", "-1", true)])
    func aBlobHasOneLength(_ one: String, _ other: String, _ isFalse: Bool) throws {
        for (a, b) in [(one, other), (other, one)] {
            let body = #"{"a":{"@type":"blob","digest":"\#(first)","length":\#(a)},"_attachments":{"b":{"digest":"\#(first)","length":\#(b)}}}"#
            let found = try BlobReferences.find(in: Array(body.utf8))
            #expect(found.count == 1 && found.first?.hasFalseLength == isFalse, "\(body)")
            if !isFalse { #expect(found.first?.claimedSize == 3) }
        }
    }

    @Test func theSearchFindsWhatIsInTheValues() throws {
        let seed = makeSeed("blob search")
        var random = SeededGenerator(seed: seed)
        let keys = ["@type", "\\u0040type", "digest", "length", "content_type", "encoding", "_attachments", "\\u005fattachments", "", "a", "long key of no use"]
        let scalars = ["\"blob\"", "\"\(first)\"", "\"\(second)\"", "\"sha1-bad\"", "27", "-1.5e3", "null", "true", "\"gz\\u0069p\"", "\"\\\"}]\"", "\"\""]
        func value(_ depth: Int) -> String {
            switch random.below(depth == 0 ? 6 : 9) {
            case 0..<6: return scalars[random.below(scalars.count)]
            case 6: return "[" + (0..<random.below(4)).map { _ in value(depth - 1) }.joined(separator: random.chance(oneIn: 2) ? " , " : ",") + "]"
            case 7:
                return "{\"@type\":\"blob\", \"x\":\(value(depth - 1)), \"digest\": \"\(random.chance(oneIn: 2) ? first : second)\",\"length\":\(random.below(9))}"
            default: return object(depth - 1)
            }
        }
        // Keys may repeat: what is stored by an older version has such.
        func object(_ depth: Int) -> String {
            "{ " + (0..<random.below(6)).map { _ in "\"\(keys[random.below(keys.count)])\" : \(value(depth))" }.joined(separator: ",") + " }"
        }
        var found = 0
        for _ in 0..<20_000 {
            let body = object(4)
            let expected = try naive(Array(body.utf8))
            found += expected.count
            #expect(try BlobReferences.find(in: Array(body.utf8)) == expected, "seed \(seed): \(body)")
        }
        #expect(found > 1_000)
    }

    @Test func onlyTextLikeTypesAreCompressible() throws {
        let digest = try BlobDigest(first)
        func compressible(_ type: String?, _ encoding: String? = nil) -> Bool {
            BlobReference(digest: digest, length: 1, contentType: type, encoding: encoding).isCompressible
        }
        #expect(compressible("text/plain"))
        #expect(compressible("application/json"))
        #expect(!compressible(nil))
        #expect(!compressible("IMAGE/png"))
        #expect(!compressible("application/x-gzip"))
        #expect(!compressible("application/vnd.rar"))
        #expect(!compressible("text/plain", "gzip"))
    }

    @Test func reservedKeysAreStripped() throws {
        func strip(_ body: String) throws -> String { try text(ReservedKeys.strip(from: Array(body.utf8))) }
        #expect(try strip(#"{"a":1, "b":{"_c":2}}"#) == #"{"a":1, "b":{"_c":2}}"#, "untouched, byte for byte")
        #expect(try strip(#"{"_id":"x","a":1.0,"_rev":"1-aa"}"#) == #"{"a":1.0}"#)
        #expect(try strip(#"{"\u005fid":"x"}"#) == "{}")
        #expect(try ReservedKeys.first(in: Array(#"{"a":1,"_exp":3}"#.utf8)) == "_exp")
        #expect(try ReservedKeys.first(in: Array(#"{"a":1}"#.utf8)) == nil)
        #expect(try strip(#"{"_attachments":7,"a":1}"#) == #"{"a":1}"#)
    }

    @Test func mirrorsOfInlineBlobsGoAndGenuineAttachmentsStay() throws {
        let body = #"""
            {"p":\#(blob(first)),"_attachments":{"blob_/p":{"digest":"\#(first)","revpos":1,"stub":true},"blob_1":{"digest":"\#(first)"},
            "photo":{"digest":"\#(second)","stub":true}}}
            """#
        let stripped = try JSONValue(parsing: ReservedKeys.strip(from: Array(body.utf8)))
        #expect(stripped["_attachments"] == ["photo": ["digest": .string(second), "stub": true]])
        #expect(stripped["p"]?["digest"] == .string(first))
    }

    @Test func anAttachmentWithAnotherDigestCorrectsItsBlob() throws {
        let body = #"{"a":[{"x/y":\#(blob(first))}],"_attachments":{"blob_/a/0/x~1y":{"digest":"\#(second)","length":0,"content_type":"image/png"}}}"#
        let stripped = try JSONValue(parsing: ReservedKeys.strip(from: Array(body.utf8)))
        let blob = stripped["a"]?.asArray?.first?["x/y"]
        #expect(blob?["digest"] == .string(second))
        #expect(blob?["length"] == 0)
        #expect(blob?["content_type"] == "image/png")
        #expect(stripped["_attachments"] == nil)
    }

    @Test func legacyAttachmentsMirrorInlineBlobsAndComeOffAgain() throws {
        let body = Array(#"{"list":[\#(blob(first))],"a~/b":\#(blob(second)),"n":1}"#.utf8)
        let sent = try LegacyAttachments.add(to: body, generation: 3)
        let attachments = try JSONValue(parsing: sent)["_attachments"]
        #expect(attachments?.asObject?.members.map(\.key) == ["blob_/list/0", "blob_/a~0~1b"])
        #expect(attachments?["blob_/list/0"] == ["digest": .string(first), "length": 27, "content_type": "text/plain", "stub": true, "revpos": 3])
        #expect(try JSONValue(parsing: ReservedKeys.strip(from: sent)) == JSONValue(parsing: body))
        // Couchbase Lite wants all blobs listed, or none.
        #expect(try LegacyAttachments.add(to: body, generation: 3, whereListed: true) == body)
        let mixed = #"{"p":\#(blob(first)),"_attachments":{"photo":{"digest":"\#(second)","length":1,"stub":true,"revpos":1}}}"#
        let listed = try JSONValue(parsing: LegacyAttachments.add(to: Array(mixed.utf8), generation: 3, whereListed: true))
        #expect(listed["_attachments"]?.asObject?.members.map(\.key) == ["photo", "blob_/p"])
        let plain = Array(#"{"n" : 1}"#.utf8)
        #expect(try LegacyAttachments.add(to: plain, generation: 3) == plain)
    }
}
