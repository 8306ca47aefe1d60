import TestRandomness
import Testing

@testable import Documents

@Suite struct IdentifierTests {
    @Test func documentIDsFollowTheRules() throws {
        #expect(try DocumentID("a").text == "a")
        #expect(try DocumentID(String(repeating: "x", count: 240)).text.utf8.count == 240)
        #expect(throws: DocumentIDError.empty) { try DocumentID("") }
        #expect(throws: DocumentIDError.leadingUnderscore(value: "\"_design\"")) { try DocumentID("_design") }
        #expect(throws: DocumentIDError.controlCharacter(byte: 10, offset: 1, value: "\"a\\x0a\"")) { try DocumentID("a\n") }
        #expect(throws: DocumentIDError.notUTF8(value: "\"a\\xff\"")) { try DocumentID(utf8: [0x61, 0xFF]) }
        let error = #expect(throws: DocumentIDError.self) { try DocumentID(String(repeating: "x", count: 241)) }
        #expect(error?.description.contains("240 are allowed (document_id_bytes)") == true)
        #expect((error?.description.utf8.count ?? 999) < 200, "the value is cut")
    }

    @Test func documentIDsCompareAsBytes() throws {
        let composed = try DocumentID("\u{E9}")
        let decomposed = try DocumentID("e\u{301}")
        #expect(composed != decomposed)
        #expect(decomposed < composed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect(Set([composed, try DocumentID(utf8: Array("\u{E9}".utf8))]).count == 1)
    }

    @Test func randomDocumentIDsAgreeWithTheRules() {
        let seed = makeSeed("documentIDs")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let alphabet: [UInt8] = [0x61, 0x5F, 0x20, 0x1F, 0x7F, 0xC3, 0xA9, 0x00]
            let count = random.chance(oneIn: 10) ? 235 + random.below(10) : random.below(6)
            let bytes = (0..<count).map { _ in random.chance(oneIn: 3) ? alphabet[random.below(8)] : UInt8(0x62) }
            let right = (1...240).contains(bytes.count) && bytes[0] != 0x5F && !bytes.contains { $0 < 0x20 || $0 == 0x7F }
                && String(validating: bytes, as: UTF8.self) != nil
            let id = try? DocumentID(utf8: bytes)
            #expect((id != nil) == right, "seed \(seed): \(bytes)")
            if let id { #expect(Array(id.text.utf8) == bytes, "seed \(seed)") }
        }
    }

    @Test(arguments: [
        "1-ab", "12-0123456789abcdef0123456789abcdef", "9007199254740991-00", "3-faded000" + "00112233aabbccdd",
        "1-" + String(repeating: "a", count: 128),
    ])
    func treeRevisionsAreKeptAsTheyAre(text: String) throws {
        let revision = try RevisionID(text)
        #expect(revision.text == text)
        #expect(revision.kind == .tree)
        #expect(revision.generation == UInt64(text.prefix { $0 != "-" }))
        #expect(revision.digest == text.drop { $0 != "-" }.dropFirst())
        #expect(RevisionID(stored: text) == revision)
        #expect(RevisionID(stored: text).generation == revision.generation)
    }

    @Test(arguments: [
        "", "-", "1", "1-", "-ab", "0-ab", "01-ab", "1-a", "1-AB", "1-abc", "1-xy", "1-ab ", " 1-ab", "9007199254740992-ab",
        "99999999999999999999-ab", "1-" + String(repeating: "a", count: 130), "1--ab", "é-ab", "1-ab\n", "+1-ab",
    ])
    func otherRevisionsAreRefused(text: String) {
        #expect(throws: RevisionIDError.self) { try RevisionID(text) }
    }

    @Test func whatIsStoredMayHaveAGreaterGeneration() throws {
        for text in ["9007199253740992-ab", "9007199254740992-ab", "4611686018427387904-ab"] {
            let revision = try RevisionID(known: text)
            #expect(revision == RevisionID(stored: text))
            #expect(revision.generation == RevisionID(stored: text).generation && revision.kind == .tree)
            let tree = try RevisionTree(revision)
            #expect(try RevisionTree(decoding: tree.encode()) == tree)
        }
        for text in ["4611686018427387905-ab", "18446744073709551615-ab", "99999999999999999999-ab"] {
            #expect(throws: RevisionIDError.self) { try RevisionID(known: text) }
            #expect(RevisionID(stored: text).generation == 0)
        }
        let last = try RevisionID(known: "4611686018427387904-ab")
        var tree = try RevisionTree(last)
        let next = RevisionDigest.revision(parent: last, deleted: false, canonicalBody: Array("{}".utf8))
        #expect(throws: RevisionTreeError.generationTooHigh(next, limit: DocumentLimits.storedGeneration)) { try tree.insert(next, history: [last]) }
    }

    @Test func versionsAreRecognisedAndRefused() {
        for version in ["1772ab@AAAAAAAAAAAAAAAAAAAAAA", "15cf7830798@Revision+Tree+Encoding", "1@AAAAAAAAAAAAAAAAAAAAAA;2@BBBBBBBBBBBBBBBBBBBBBB"] {
            let error = #expect(throws: RevisionIDError.self) { try RevisionID(version) }
            guard case .isVersion? = error else {
                Issue.record("\(version): \(String(describing: error))")
                continue
            }
        }
    }

    @Test func randomRevisionsAgreeWithTheRules() {
        let seed = makeSeed("revisionIDs")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<5_000 {
            let text = String((0..<random.below(12)).map { _ in Array("0123456789abcdefA-@ g")[random.below(21)] })
            let right = text.wholeMatch(of: /[1-9][0-9]*-([0-9a-f][0-9a-f])+/) != nil
            #expect(((try? RevisionID(text)) != nil) == right, "seed \(seed): \(text)")
            #expect((withExactCopy(Array(text.utf8)) { try? RevisionID(utf8: $0) } != nil) == right, "seed \(seed): \(text)")
        }
    }

    @Test func revisionsOrderByGenerationAsANumber() throws {
        #expect(try RevisionID("9-ff") < RevisionID("10-00"))
        #expect(try RevisionID("2-aa") < RevisionID("2-ab"))
        #expect(try RevisionID("2-aa") < RevisionID("2-aa00"))
        #expect(try !(RevisionID("2-aa") < RevisionID("2-aa")))
    }

    @Test func collectionNames() throws {
        #expect(try CollectionName(parsing: "_default") == .default)
        #expect(try CollectionName(parsing: "_default._default").wireName == "_default")
        #expect(try CollectionName(parsing: "notes").description == "_default.notes")
        #expect(try CollectionName(parsing: "app.no-te%s").wireName == "app.no-te%s")
        for bad in ["", ".", "a.", ".a", "a.b.c", "_x", "%x", "a.%x", "a b", "é", "app._default", String(repeating: "x", count: 252)] {
            #expect(throws: CollectionNameError.self, "\(bad)") { try CollectionName(parsing: bad) }
        }
    }
}
