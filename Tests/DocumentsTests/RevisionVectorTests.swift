import Testing

import Documents

@Suite struct RevisionVectorTests {
    @Test func revisionsOfLiteCore() throws {
        var checked = 0
        for vector in try #require(replicationVectors()["revid"]?.asArray) where vector["style"]?.asString == "LiteCore 3.3+" {
            let parent = try #require(vector["parent"]?.asString)
            let body = try #require(vector["body"]).canonicalBytes()
            let isDeleted = try #require(vector["deleted"]?.asBool as Bool?)
            let revision = RevisionDigest.revision(
                parent: parent.isEmpty ? nil : try RevisionID(parent), deleted: isDeleted, canonicalBody: body)
            #expect(revision.text == vector["rev"]?.asString)
            #expect(try RevisionID(revision.text) == revision)
            checked += 1
        }
        #expect(checked == 3)
    }

    @Test func digestsOfBlobs() throws {
        let vectors = try #require(replicationVectors()["blob"]?.asArray)
        #expect(!vectors.isEmpty)
        for vector in vectors {
            let digest = BlobDigest.of(Array(try #require(vector["bytes"]?.asString).utf8))
            let text = try #require(vector["digest"]?.asString)
            #expect(digest.text == text)
            #expect(try BlobDigest(text) == digest)
            #expect(BlobDigest(bytes: digest.bytes) == digest)
            #expect(digest.hex.utf8.count == 40)
        }
    }

    @Test(arguments: [
        "", "sha1-", "sha1-ERWD9RaGBqLSWOQ+96TZ6Kisjck", "sha1-ERWD9RaGBqLSWOQ+96TZ6Kisjcl=", "md5-ERWD9RaGBqLSWOQ+96TZ6Kisjck=",
        "sha1-ERWD9RaGBqLSWOQ+96TZ6Kisjckk", "sha1-ERWD9RaGBqLSWOQ-96TZ6Kisjck=", "sha1-ERWD9RaGBqLSWOQ+96TZ6Kisj===",
    ])
    func otherBlobDigestsAreRefused(text: String) {
        #expect(throws: BlobDigestError.self) { try BlobDigest(text) }
    }

    @Test func theConflictRuleOfCouchbaseLite() throws {
        func winner(_ local: String, _ localDeleted: Bool, _ remote: String, _ remoteDeleted: Bool) throws -> ConflictWinner {
            ConflictRule.defaultWinner(
                local: (revision: try RevisionID(local), deleted: localDeleted), remote: (revision: try RevisionID(remote), deleted: remoteDeleted))
        }
        #expect(try winner("2-aa", true, "9-aa", false) == .local)
        #expect(try winner("9-aa", false, "2-aa", true) == .remote)
        #expect(try winner("9-aa", true, "2-aa", true) == .remote)
        #expect(try winner("10-aa", false, "9-ff", false) == .local)
        #expect(try winner("9-aa", false, "9-ab", false) == .remote)
        #expect(try winner("9-ac", false, "9-ab", false) == .local)
        #expect(try winner("9-aa", false, "9-aa", false) == .remote)
    }
}
